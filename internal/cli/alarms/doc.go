// Package alarms is the command "alarms": it keeps the alarms of a job beside its
// stage, lists, prints and acknowledges them, and changes their rules.
//
// # Files
//
//   - run.go: defines the commands alarms and alarms run
//   - look.go: defines the commands alarms list, tail, ack and rules
package alarms
