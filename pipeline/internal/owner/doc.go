// Package owner holds partitions: an Ownership is the time between the claim of a
// partition and its end, and an Emitter publishes what a shard has computed.
//
// Hold claims the partition, checks that the input is the one it was
// (checkinput.go), restores the state from a snapshot (restore.go), reads the
// input (receive.go), and gives the partition up at the end. The Emitter of its
// shard commits its predictions (emit.go, split.go), stores its snapshots and
// writes its last record (release.go). storing.go knows how far the states are
// stored, retire.go what was replaced and is kept for a while, place.go what is
// known of the input beyond its messages.
//
// Goroutines. Hold runs in the ownership's own. The committer is Hold's until the
// shard has the partition, and the Emitter's afterwards. Of what several see,
// each field has one writer, who publishes it atomically, or is behind a lock
// that is held for a few assignments (storing); no step of a message takes a lock.
//
// Rebuild does the same without a claim, to verify a state; InputWatch looks
// after the input of partitions that hear nothing.
package owner
