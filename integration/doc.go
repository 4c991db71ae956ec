// Package integration holds the tests that need several packages, a real
// server or another program: who may import whom, that the documents say what
// the program does (links, commands, flags, tests, quotes of the log), the model
// file opened by NumPy, and the stage broken on purpose (command chaos, below
// it). The stage on simulated and recorded data is tested where its commands
// are, in internal/cli.
package integration
