// Package alarms is the command "alarms": it keeps the alarms of a job beside its
// stage, lists, prints and acknowledges them, and changes their rules.
package alarms
