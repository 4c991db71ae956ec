// Package timeunit converts numeric times since 1970 to nanoseconds, refuses an apparent
// time of another unit, and limits sampling rates.
//
// # Files
//
//   - timeunit.go: converts times and checks their unit
//   - rate.go: bounds sampling rates
package timeunit
