// Package term writes for people: text without control characters, a bar or
// lines of progress with the time left, a status line, and messages as lines of
// JSON. It knows no command.
package term
