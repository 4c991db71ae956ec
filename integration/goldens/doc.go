// Package goldens holds what whole jobs come to, from training to the last
// prediction, as text: predictions with every column, dead letters, states and
// their digests, and the offline evaluation. The files in testdata were written by
// the program of 2026-11-29, before its code was rearranged, and the test compares
// today's program with them.
//
// The test runs only commands of the program and sends JSON messages, so that it does
// not depend on how packages are cut. It depends on no clock.
package goldens
