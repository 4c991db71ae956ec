// Command eusn-stream classifies time series as they stream by, with Euler
// State Networks. Its library packages do the work; this one is where they are
// wired together, where the configuration, the environment and signals are
// read, and the only place that exits.
//
// Data goes to standard output, messages and progress to standard error. With
// --json the data is one JSON document (one per line where there are many).
// Exit codes are listed by "eusn-stream help exit-codes"; see exit.go.
package main
