// Package clitest runs the whole program in tests: its arguments in, exit code and
// both outputs out, in the foreground (Exec, Must) or until it is stopped (Start);
// and small data sets to run it on. Only tests import it.
package clitest
