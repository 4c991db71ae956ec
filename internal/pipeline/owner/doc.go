// Package owner holds partitions. An Ownership is a worker's hold on a partition, from
// the claim to the end; an Emitter publishes the answers of a shard.
//
// Hold claims the partition, compares the input with the record, restores the state
// from a snapshot, reads the input and releases the partition at the end. The Emitter
// of the shard commits the predictions, stores the snapshots and writes the last
// record.
//
// Goroutines. HoldPartition runs in the ownership's goroutine. It uses the committer
// until the shard has the partition, and the Emitter uses the committer afterwards.
// Fields read by several goroutines are atomic, or guarded by a lock held only for a
// few assignments (storing, end), never during a request. A single lock is held during
// requests: the lock serializes the callbacks of a consumer (Receive).
//
// Rebuild restores and replays without a claim, to verify a state. InputWatch checks
// the input of partitions that receive no messages.
//
// # Files
//
//   - ownership.go: claims, holds and releases a partition (Ownership)
//   - worker.go: defines what the ownerships of a worker share
//   - compatible.go: refuses records of another arithmetic, such as tensor cores
//   - checkinput.go: compares the input with the record at a claim
//   - restore.go: restores a state from a snapshot, or without a lost snapshot
//   - rebuild.go: rebuilds a state without a claim, to verify a digest
//   - receive.go: reads a partition with a consumer of its own
//   - push.go: receives messages that the server pushes
//   - common.go: reads all partitions with one consumer (Common)
//   - gather.go: begins the first partitions of a worker together
//   - place.go: tracks how far the input was read
//   - lookbehind.go: detects removed input (InputWatch)
//   - lookahead.go: detects a consumer without deliveries
//   - oldest.go: asks for the age of the oldest unanswered message
//   - health.go: reports phase and lag of an ownership
//   - emit.go: commits the predictions of a shard (Emitter)
//   - split.go: encodes predictions into messages that the server accepts
//   - carry.go: publishes predictions with features
//   - shadow.go: publishes predictions of shadows
//   - release.go: stores snapshots and writes the last record
//   - storing.go: tracks the stored states
//   - retire.go: keeps replaced snapshots for a while
//   - rowlife.go: lists the states stored outside a snapshot
//   - idle_message.go: publishes end events for silent streams
//   - promote.go: publishes promotions into the input
//   - promoting.go: tracks the promotion in a record
//   - drained.go: reports whether all input up to a message is answered
//   - traces.go: creates the spans of traced messages
package owner
