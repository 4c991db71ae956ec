// Package store is what a job has stored on a NATS server: its NATS streams and
// the records of its partitions, the snapshots of their states, the state rows
// that found no slot, and the sweep of what killed workers left behind. It has the
// rules for asking again: what a refusal and a silence of the server mean.
//
// It knows the formats (package wire), and neither a state nor an engine: a
// snapshot and a row are bytes here.
package store
