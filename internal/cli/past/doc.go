// Package past has the commands for a job's history: explain, state show --at.
//
// # Files
//
//   - explain.go: defines the command explain
//   - text.go: writes an explanation as text
//   - picture.go: draws an explanation as SVG
//   - asof.go: defines the command state show --at
//   - diff.go: defines the command state diff for two places of a log
package past
