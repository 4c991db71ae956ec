// Package root is the program as a function: all commands under one root, with arguments and
// writers as input and an exit code as result. Only package main and tests of the whole program
// import it.
//
// # Files
//
//   - root.go: combines all commands into the program
//   - advise.go: adds the next command to errors of libraries
//   - version.go: defines the command version
//   - decimal.go: rejects flags with leading zeros and other odd numbers
//   - help.go: completes the help: related commands, examples of groups, order of flags
//   - complete.go: completes values of flags and arguments in a shell
//   - usage.go: describes wrong flags and arguments
//   - guess.go: leads from what people type to the right command or flag
package root
