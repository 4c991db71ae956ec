// Package state is the state machine of a partition: the state of the keys whose
// messages go to the partition, and the change that a message makes. Machine.Apply
// takes one message and returns the runs for an engine, the predictions that the runs
// make and the dead letters.
//
// The package uses no server, clock, engine or log, and starts no goroutine: the result
// is a function of the rules and of the messages in order. A replay of the same
// messages, cut into any batches, gives the same state, and Partition.Sum, the digest,
// shows that. The exactly-once protocol is built on this property; see the
// documentation of package pipeline.
//
// Some parts of a state are kept by an owner: the row of each state of a stream, in a
// slot of an engine or stored outside the snapshot (Stream.Slots, Stream.Away). This
// package only passes the location on, and reads rows through RowReader to encode or
// hash them. The location of a row is not part of the state.
//
// # Files
//
//   - machine.go: applies a message to a partition (Machine.Apply)
//   - message.go: defines an input message
//   - examine.go: checks headers and decodes the payload
//   - demux.go: divides samples among streams and adds runs
//   - missing.go: lists missing values
//   - admit.go: refuses a message with too many new streams
//   - reorder.go: holds early messages and declares messages missing
//   - loss.go: records where input was lost
//   - partition.go: defines the state of a partition
//   - source.go: defines the state of a key: message numbers, held messages
//   - stream.go: defines the state of a stream
//   - effects.go: defines the effects of a message: runs, predictions, dead letters
//   - promotion.go: decides which readout predicts for a sequence
//   - silent.go: finds silent streams
//   - silence.go: applies end events and promotions
//   - digest.go: updates and checks the digest of a state
//   - encode.go: encodes a snapshot
//   - decode.go: decodes a snapshot
//   - decode_reader.go: reads the fields of a snapshot
//   - shape.go: defines the properties that exchangeable states share
//   - redistribute.go: moves keys to other partitions
//   - acquaint.go: copies message numbers from another partition
//   - taken.go: reports the samples that each stream uses
package state
