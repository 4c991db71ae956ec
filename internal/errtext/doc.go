// Package errtext writes errors for users. In this module the text of an error begins with the name of a package, for
// callers in Go; users do not need it. All messages, logs, reports and answers to requests of the program use For.
//
// # Files
//
//   - errtext.go: removes the names of packages, and describes errors of Go's library
package errtext
