// Package integration holds the tests that need several packages, a real server
// or another program. They check which package imports which; that the
// documents say what the program does (links, commands, flags, tests, quotes of
// the log); that NumPy can open the model file; and the stage when it is broken
// on purpose (command chaos, below it). The stage on simulated and recorded
// data is tested where its commands are, in internal/cli.
package integration
