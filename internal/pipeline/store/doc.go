// Package store reads and writes what a job has on a NATS server: its NATS
// streams, the records of its partitions and the commits that write them, the
// snapshots of states, the states that found no slot, and the dead letters. It
// deletes what killed workers left behind. It also has the rules for trying again:
// what it means if the server refuses, or does not answer.
//
// It knows the formats (package wire), but neither states nor engines: a
// snapshot and a state are bytes here.
//
// # Files
//
//   - streams.go: creates the NATS streams of a job or compares their configuration
//   - auxiliary.go: recreates NATS streams that were deleted under a running stage
//   - begun.go: marks the NATS streams of a job that has begun
//   - gone.go: reports a lost input or output
//   - job.go: opens a job; reads its records and readers
//   - entry.go: reads and writes the entry of a job
//   - commit.go: claims and commits a partition; decides whether a commit was refused (fencing)
//   - retry.go: classifies errors: refused, not answered, try later
//   - patiently.go: publishes until the server has a message
//   - deadletter.go: publishes dead letters
//   - features.go: publishes predictions with features
//   - shadow.go: publishes predictions of shadows
//   - input.go: asks the server about the input: is it unchanged, what comes next
//   - mixed.go: reads input that was stored while partitions changed
//   - since.go: finds the first message after a time
//   - link.go: ends questions when a connection breaks
//   - consumers.go: computes the limits of consumers
//   - bucket.go: reads and writes objects of the server's object store
//   - snapshots.go: stores snapshots
//   - states.go: opens a job with its snapshots; repeats what a replaced snapshot has made fail
//   - sweep.go: deletes snapshots of killed workers
//   - rowstore.go: stores single states
//   - orphans.go: deletes single states that no snapshot names
//   - models.go: stores model files
//   - trim.go: removes input that no job needs
package store
