// Package replay reads the log of a job beside the job's workers, with the stage's own
// code, so that what it computes has the bits of the stage: predictions of old
// messages, features of sequences, states that a partition had, and recordings of the
// input. It publishes nothing, and the job stays as it is.
//
// Each operation is a function of a pipeline.Job. It opens the log (log.go), and hands
// its messages in batches to a shard of its own (inlog.Batches). A recording needs no
// network, and hands them to the state machine.
//
// # Files
//
//   - log.go: opens the log of a job and finds the messages of a time
//   - backfill.go: predicts old messages
//   - features.go: computes features of sequences
//   - record.go: records the input of a job as training data
//   - past.go: computes a part of a partition's past again
//   - asof.go: computes the state that a partition had at a place of the log
//   - verify.go: rebuilds the state of a partition and compares its digest
//   - between.go: computes two states of a partition and counts the input between both
package replay
