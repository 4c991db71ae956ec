// Package owner holds partitions. An Ownership is a worker's hold on one partition,
// from the claim to the end; an Emitter publishes what a shard has computed.
//
// Hold claims the partition, checks that the input is the one it was
// (checkinput.go), restores the state from a snapshot (restore.go), reads the
// input (receive.go; common.go, together with other partitions), and gives the
// partition up at the end. The Emitter of its
// shard commits its predictions (emit.go, split.go), stores its snapshots and
// writes its last record (release.go). storing.go knows which states are stored,
// retire.go which snapshots were replaced and are kept for a while, place.go what
// is known of the input besides its messages: how far it was read, and where it
// has none for the partition.
//
// Goroutines. Hold runs in the ownership's own. The committer is Hold's until the
// shard has the partition, and the Emitter's afterwards. What several goroutines
// read is atomic, or is behind a lock that is held for a few assignments
// (storing, end), never during a request. One lock is held during requests: it
// lets the callbacks of one consumer ask the server in turn (Receive).
//
// Rebuild restores and replays without a claim, to verify a state. InputWatch
// checks the input of partitions that get no messages.
package owner
