// Package alarmtest says what alarms must be: an oracle that shares no code with package
// alarm and looks at all predictions again for each of them, and random rules and
// predictions.
package alarmtest
