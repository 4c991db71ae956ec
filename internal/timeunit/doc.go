// Package timeunit converts times that are numbers since 1970 to nanoseconds, refuses a
// number that looks like a time of another unit, and limits sampling rates.
//
// # Files
//
//   - timeunit.go: converts times and checks their unit
//   - rate.go: bounds sampling rates
package timeunit
