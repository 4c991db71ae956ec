// Package replay reads the log of a job in parallel with the job's workers, with the stage's own code, so that its
// results have the bits of the stage: predictions of old messages, features of sequences, earlier states of a
// partition, and recordings of the input. Nothing is published, and the job is not changed.
//
// Each operation is a function of a pipeline.Job. The function opens the log (log.go), and hands its messages in
// batches to a shard of its own (inlog.Batches). A recording needs no network, and hands its messages to the state
// machine.
//
// # Backfill
//
// A backfill writes predictions of old messages to a file, each once. The input is a job's log (inlog.Log) or other
// messages (inlog.Source).
//
// All keys are in one partition. A key's state depends only on its own messages, so the results have the job's bits
// at any number of partitions. Only limits differ: a partition's limits on streams and waiting bytes (MaxStreams,
// ReorderBytes) hold for all partitions together here, and are multiplied by their number.
//
//	FILE.part      the predictions so far, a line each, in the order of the messages
//	FILE.position  how far they go, and the states there
//	FILE           the predictions, when all are there
//
// The lines depend only on the messages, not on the batches. A position is stored after the lines before it are on
// the disk. A computation that continues after a kill cuts off the lines after the position and recomputes these
// lines. So the file has the bytes of an uninterrupted computation.
//
// A position file is, with little-endian numbers:
//
//	"EUSNBACK" version:u32 length:u32 the position in JSON, so many bytes
//	the state of the partition, as in a snapshot (package state)
//	sha256 of everything before it
//
// # Files
//
//   - log.go: opens the log of a job and finds the messages of a time
//   - backfill.go: predicts old messages
//   - backfill_run.go: computes a backfill batch by batch
//   - backfill_output.go: writes the file of predictions
//   - backfill_position.go: encodes the position from which a backfill continues
//   - features.go: computes features of sequences
//   - record.go: records the input of a job as training data
//   - past.go: computes a part of a partition's past again
//   - asof.go: computes the state that a partition had at a place of the log
//   - verify.go: rebuilds the state of a partition and compares its digest
//   - between.go: computes two states of a partition and counts the input between both
package replay
