// Package names holds the one rule for names that come from outside, of
// classes, channels, series, streams, heads and data sets: UTF-8 of at most
// MaxBytes bytes, without characters that steer a terminal or turn a line
// around. Names that a rule has let through still differ in length: Cut makes
// them fit where people read them.
//
// # Files
//
//   - names.go: checks and cuts names
//   - classes.go: joins classes that are the same number
//   - patterns.go: matches names with patterns
package names
