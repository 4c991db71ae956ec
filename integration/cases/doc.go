// Package cases runs inputs, scripts and programs that once revealed faults of the
// program, against the program of this checkout. The inputs are in the folder
// ../shared/cases next to the checkout; the tables of this package describe each run and
// its required result.
//
//	make cases                       all cases: two hours; scripts need root, mosquitto
//	make cases CASES=TestReportCases/A0  a part: a regular expression as for go test -run
//
// At its end the test prints a table: the case, the required result, the result.
package cases
