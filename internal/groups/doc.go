// Package groups assigns sequences to groups: a machine, a person or a day. Sequences of
// one group have similarities that a new machine, person or day will not share, so a figure
// for new groups must leave out a whole group at once, and a division into parts must not cut
// a group.
//
// A Rule finds the group of a sequence; a Report describes a readout on each unseen group;
// Divide draws the groups of a test part.
//
// The package is independent of archives and readouts.
//
// # Files
//
//   - rule.go: parses the rule that gives sequences their groups (docs/groups.md)
//   - table.go: numbers the groups
//   - parts.go: divides groups into a training part and a test part
//   - report.go: reports how a readout performs on unseen groups
package groups
