// Package term writes for people: text without control characters, a progress bar or progress
// lines with the remaining time, a status line, and messages as lines of JSON. It depends on no
// command.
//
// # Files
//
//   - progress.go: draws a progress bar
//   - liveline.go: draws a status line
//   - screen.go: draws a whole terminal
//   - clean.go: removes control characters from output
//   - field.go: quotes a text that is no single field
//   - jsonlines.go: writes log lines as JSON records
package term
