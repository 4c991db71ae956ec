// Package alarmtest computes the alarms that must result: an oracle that shares no code
// with package alarm and, for each prediction, evaluates all earlier predictions; and
// random rules and predictions.
package alarmtest
