// Package root is the program as a function: all commands under one root, with
// arguments and writers in and an exit code out. Only package main and tests
// of the whole program import it.
package root
