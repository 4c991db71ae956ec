// Package cases runs inputs, scripts and programs that have shown faults of the
// program, against the program of this checkout. They are in the folder
// ../shared/cases beside the checkout; the tables of this package hold how each is
// run, and what must hold.
//
//	make cases                       all of them: a quarter of an hour
//	make cases CASES=TestReportCases/A0  a part: a regular expression as for go test -run
//
// At its end the test prints a table: the case, what must be, what happened.
package cases
