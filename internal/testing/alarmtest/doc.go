// Package alarmtest computes the alarms that must result: an oracle that shares no code
// with package alarm and, for each prediction, evaluates all earlier predictions; and
// random rules and predictions.
//
// # Files
//
//   - oracle.go: computes the events that must result
//   - random.go: generates rules and messages
package alarmtest
