// Command eusn-stream classifies time series as they stream by, with Euler
// State Networks. This package handles signals and exits; the commands are in
// internal/cli, which wires the library packages together and reads the
// configuration and the environment.
//
// Data goes to standard output, messages and progress to standard error. With
// --json the data is one JSON document (one per line where there are many).
// Exit codes are listed by "eusn-stream help exit-codes"; see
// internal/cli/exit.go.
package main
