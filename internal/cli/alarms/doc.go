// Package alarms is the command "alarms": it manages the alarms of a job in parallel with its
// stage, lists, prints and acknowledges alarms, and changes their rules.
//
// # Files
//
//   - run.go: defines the commands alarms and alarms run
//   - keeper.go: keeps the alarms of a job, in a process of its own or in the process of a stage
//   - look.go: defines the commands alarms list, tail, ack and rules
package alarms
