// Package shard computes. A Shard takes the input messages of its partitions,
// joins them into batches, drives the state machine (package state) and an
// engine, and hands each batch with its predictions to an emitter.
//
// A Shard belongs to one goroutine (Run). It gets jobs on its Queue and knows who
// holds a partition only through an interface (owner, in partition.go). Nothing is allocated for
// a batch once its slices have grown.
//
//	shard.go, batches.go      takes jobs, fills batches
//	ingest.go                 one message: the state machine, and what it says to count and log (tell.go)
//	assign.go, compute.go     runs get slots; one engine call
//	spill.go, pool.go         where the states are: the engine's slots, or stored apart
//	install.go, finalise.go   a partition begins; a batch ends: digests, snapshots
//	idle.go                   asks for the end of silent streams
package shard
