// Package groups says which sequences belong together: those of one machine, one
// person or one day. Sequences of one group are alike in what a new machine, person
// or day will not share with them, so a figure that is to hold for new ones must
// leave out a whole group at once, and a division into parts must not cut one.
//
// A Rule says how the group of a sequence is found; a Report says how a readout does
// on each group that it has not seen; Divide draws the groups of a test part.
//
// The package knows neither archives nor readouts.
//
// # Files
//
//   - rule.go: parses the rule that gives sequences their groups (docs/groups.md)
//   - table.go: numbers the groups
//   - parts.go: divides groups into a training part and a test part
//   - report.go: reports how a readout performs on unseen groups
package groups
