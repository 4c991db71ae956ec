// Package store reads and writes a job's data on a NATS server: its NATS streams, the
// records of its partitions and their commits, the snapshots of states, state rows
// without a slot, and the dead letters. It deletes objects left by killed workers. It
// also defines the rules for retries, after a refusal or a timeout of the server.
//
// The package uses the formats (package wire), but neither states nor engines: a
// snapshot and a state are only bytes here.
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
//   - input.go: asks the server whether the input is unchanged, and for the next message
//   - mixed.go: reads input that was stored while partitions changed
//   - since.go: finds the first message after a time
//   - link.go: ends questions when a connection breaks
//   - consumers.go: computes the limits of consumers
//   - bucket.go: reads and writes objects of the server's object store
//   - snapshots.go: stores snapshots
//   - states.go: opens a job with its snapshots; retries after a snapshot was replaced
//   - sweep.go: deletes snapshots of killed workers
//   - rowstore.go: stores single states
//   - orphans.go: deletes state rows that no snapshot names
//   - models.go: stores model files
//   - trim.go: removes input that no job needs
package store
