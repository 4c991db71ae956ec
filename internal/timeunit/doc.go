// Package timeunit converts times that are numbers since 1970 to nanoseconds, and
// refuses a number that looks like a time of another unit.
//
// # Files
//
//   - timeunit.go: converts times and checks their unit
package timeunit
