// Package sequence decides where the sequences of a stream begin and end: it applies a
// [reservoir.Policy] to the samples of a stream, message by message.
//
// The package is the only place of this decision, and keeps its state between two
// messages: the live stage calls it for each message, training and evaluation for each
// stored stream, so that all cut a stream at the same places. A Sequencer reads the
// number of samples, their times and end marks, and never a value. The caller keeps the
// states and handles predictions. Front runs the samples through a model's front end,
// which restarts with each sequence.
//
// # Files
//
//   - sequence.go: cuts streams into sequences
//   - front.go: runs samples through a model's front end
//   - lengths.go: computes the median of lengths
package sequence
