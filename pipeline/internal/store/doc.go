// Package store is what a job has on a NATS server: its NATS streams, the
// records of its partitions and the commits that write them, the snapshots of
// states, the states that found no slot, the dead letters, and what killed workers
// left behind. Nothing else writes to them. It has the rules for asking again:
// what a refusal and a silence of the server mean.
//
// It knows the formats (package wire), and neither a state nor an engine: a
// snapshot and a state are bytes here.
//
//	streams.go     the NATS streams: created, or compared with the configuration
//	commit.go      the only writer of a partition's output: claim, commit, what became of an unanswered one
//	deadletter.go  dead letters, each published once
//	snapshots.go   snapshots of partitions; sweep.go deletes those of killed workers
//	rowstore.go    states that found no slot; orphans.go deletes those that no snapshot names
//	input.go       questions about the input: is it the one it was
//	auxiliary.go   NATS streams that may be created again under a running stage
//	retry.go       refused, unheard, to be tried later
package store
