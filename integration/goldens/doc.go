// Package goldens compares the results of whole jobs, from training to the last
// prediction, with text files: predictions with every column, dead letters, states and
// their digests, and the offline evaluation. The program of 2026-11-29 wrote the files in
// testdata before its code was rearranged, and the test compares the current program with
// them.
//
// The test runs only commands of the program and sends JSON messages, so that it does not
// depend on the division into packages. It depends on no clock.
package goldens
