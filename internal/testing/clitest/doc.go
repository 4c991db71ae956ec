// Package clitest runs the whole program in tests, from arguments to exit code and both
// outputs, in the foreground (Exec, Must) or in the background (Start); and makes small
// data sets for these runs. Only tests import the package.
package clitest
