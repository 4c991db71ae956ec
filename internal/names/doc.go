// Package names has the one rule for names from outside: names of classes, channels, series,
// streams, heads and data sets. A name is UTF-8 of at most MaxBytes bytes, without characters
// that control a terminal or the direction of text. Cut shortens valid names for people.
//
// # Files
//
//   - names.go: checks and cuts names
//   - classes.go: joins classes that are the same number; finds healthy classes
//   - patterns.go: matches names with patterns
package names
