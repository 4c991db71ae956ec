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
package state
