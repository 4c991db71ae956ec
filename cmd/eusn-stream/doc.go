// Command eusn-stream classifies time series in a stream, with Euler State Networks. This
// package handles signals and exits; the commands are in internal/cli, which connects the
// library packages and reads the configuration and the environment.
//
// Data goes to standard output, messages and progress to standard error. With --json the
// data is a JSON document (or one document per line). Exit codes are listed by
// "eusn-stream help exit-codes"; see internal/cli/exit.go.
package main
