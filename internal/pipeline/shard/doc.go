// Package shard computes. A Shard receives the input messages of its partitions, joins
// messages into batches, drives the state machine (package state) and an engine, and
// passes each batch with its predictions to an emitter.
//
// A Shard belongs to one goroutine (Run). It receives jobs from its Queue and uses the
// holder of a partition only through an interface (owner). After its slices have grown,
// a batch allocates nothing.
//
// # Files
//
//   - shard.go: runs a shard; fills batches up to stage.rows or stage.latency (CollectBatch)
//   - batch.go: defines jobs, batches and answers
//   - batches.go: reuses answered batches, lets batches grow
//   - partition.go: defines a partition of a shard and the interface of its owner
//   - ingest.go: applies one message to the state machine
//   - tell.go: counts and logs the effects of a message
//   - assign.go: gives each run a slot
//   - pool.go: allocates the slots of an engine
//   - spill.go: stores cold states on the server and reads them back
//   - slots.go: defines where states are: in slots or stored apart
//   - compute.go: calls the engine and computes answers
//   - readouts.go: selects the readouts that the engine scores
//   - novelty.go: scores novelty after an engine call
//   - waves.go: divides runs into engine calls; features are read between calls
//   - carry.go: selects predictions that carry features
//   - shadow.go: defines the shadows of an engine
//   - finalise.go: updates digests and takes snapshots after a batch
//   - install.go: installs a restored partition; checks its digest
//   - idle.go: requests the end of silent streams
//   - direct.go: runs a partition without an owner, for backfill and past states
//   - follow.go: computes features of sequences
//   - passed.go: counts the input of each stream
//   - traced.go: defines traced messages
package shard
