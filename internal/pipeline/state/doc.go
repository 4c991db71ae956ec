// Package state is the state machine of a partition: what is remembered of the
// keys whose messages go to it, and what a message does to that. Machine.Apply
// takes one message and gives the runs that an engine is to do, the predictions
// that they make and the dead letters.
//
// It knows no server, no clock, no engine and no log, and starts no goroutine:
// what comes out is a function of the rules and of the messages in order. So a
// replay of the same messages, cut into whatever batches, comes to the same
// state, and Partition.Sum, the digest, shows it. That is what the exactly-once
// protocol rests on; package pipeline's documentation tells it.
//
// A state has parts that an owner keeps elsewhere: the row of each of a stream's
// states, in a slot of an engine or stored apart (Stream.Slots, Stream.Away).
// This package hands them through, and reads rows through RowReader where it
// encodes or hashes them. Where a row is, is no state.
//
// # Files
//
//   - machine.go: applies a message to a partition (Machine.Apply)
//   - message.go: defines an input message
//   - examine.go: checks headers and decodes the payload
//   - demux.go: divides samples among streams and adds runs
//   - missing.go: lists missing values
//   - admit.go: refuses a message that brings too many streams
//   - reorder.go: holds early messages and declares messages missing
//   - loss.go: records where input was lost
//   - partition.go: defines the state of a partition
//   - source.go: defines the state of a key: numbers of its messages, held messages
//   - stream.go: defines the state of a stream
//   - effects.go: defines the effects of a message: runs, predictions, dead letters
//   - promotion.go: decides which readout answers a sequence
//   - silent.go: finds silent streams
//   - silence.go: applies end events and promotions
//   - digest.go: updates and checks the digest of a state
//   - encode.go: encodes a snapshot
//   - decode.go: decodes a snapshot
//   - decode_reader.go: reads the fields of a snapshot
//   - shape.go: defines what states must have in common to be exchanged
//   - redistribute.go: moves keys to other partitions
//   - acquaint.go: copies message numbers from another partition
//   - taken.go: reports the samples that each stream uses
package state
