// Package cli holds what every command of the program shares: where its output
// goes (App), how it ends (Fail and the exit codes), which files it may write
// (OutputFile, ReplaceFile), and what the build is called. It knows no command;
// package root puts them together.
package cli
