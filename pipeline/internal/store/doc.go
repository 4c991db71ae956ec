// Package store reads and writes what a job has on a NATS server: its NATS
// streams, the records of its partitions and the commits that write them, the
// snapshots of states, the states that found no slot, and the dead letters. It
// deletes what killed workers left behind. It also has the rules for trying again:
// what it means if the server refuses, or does not answer.
//
// It knows the formats (package wire), but neither states nor engines: a
// snapshot and a state are bytes here.
//
//	streams.go     the NATS streams: created, or compared with the configuration
//	commit.go      the only writer of a partition's output: claim, commit, what became of an unanswered one
//	deadletter.go  dead letters, each published once
//	snapshots.go   snapshots of partitions; sweep.go deletes those of killed workers
//	rowstore.go    states that found no slot; orphans.go deletes those that no snapshot names
//	input.go       questions about the input: is it still the same
//	auxiliary.go   NATS streams that may be created again under a running stage
//	retry.go       which answers mean: refused, not answered, try again later
package store
