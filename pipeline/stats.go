package pipeline

import (
	"sync/atomic"
	"time"
)

// Counters is what a running stage counts. The zero value is ready; one
// Counters may outlive several runs. Read it with Stats.
type Counters struct {
	messages, rows, bytes, duplicates, gaps, incarnations, deadLetters, held               atomic.Uint64
	predictions, early, commits, retries, batches, replayed, resets                        atomic.Uint64
	forgotten, idle, spilled, fetched, reordered, claims, fenced, snapshots, snapshotBytes atomic.Uint64
	decodeNS, engineNS, commitNS                                                           atomic.Int64
	pending, waiting, streams, slots, replaying, owned, stopped, away                      atomic.Int64
}

// Stats is a snapshot of Counters: totals since the start unless they say
// "now".
type Stats struct {
	Messages     uint64 // input messages taken into account, replay excluded
	Rows         uint64 // samples in them that reached a state
	Bytes        uint64 // payload bytes of Messages
	Replayed     uint64 // input messages replayed to rebuild states
	Duplicates   uint64 // messages dropped: their sequence number was known
	Gaps         uint64 // messages whose sequence number was too high
	Incarnations uint64 // times a producer began counting anew
	DeadLetters  uint64 // messages that could not be used
	Held         uint64 // missing values replaced by the previous sample's
	Predictions  uint64 // published and acknowledged, early ones included
	Early        uint64 // of these, before the end of their sequence
	Commits      uint64 // output messages acknowledged
	Retries      uint64 // publishes repeated because no answer came
	Batches      uint64 // engine calls
	Resets       uint64 // consumers that reported an error and recovered
	Forgotten    uint64 // streams forgotten at Config.MaxStreams, or after Config.Forget
	Idle         uint64 // sequences ended by a stream's silence, Config.Idle
	Spilled      uint64 // state rows stored because a shard had no free one
	Fetched      uint64 // of these, read back
	Reordered    uint64 // messages that came too early and were put in order
	Claims       uint64 // partitions taken over
	Fenced       uint64 // partitions another worker took over from this one
	Snapshots    uint64 // states of partitions stored
	SnapshotSize uint64 // bytes of them

	Decode time.Duration // time in the decoder, all shards
	Engine time.Duration // time in Engine.Advance, all shards
	Commit time.Duration // time in publishing, all emitters

	Lag       int64 // now: input messages stored but not yet answered
	Streams   int64 // now: streams remembered
	Slots     int64 // now: state rows in use
	Away      int64 // now: state rows stored apart
	Replaying int64 // now: partitions still rebuilding states
	Owned     int64 // now: partitions this worker has claimed
	Stopped   int64 // now: partitions it has stopped for an error
}

// Stats reads all counters. They are read one after another, so a snapshot
// taken while the stage works may be off by the messages in hand.
func (c *Counters) Stats() Stats {
	return Stats{
		Messages: c.messages.Load(), Rows: c.rows.Load(), Bytes: c.bytes.Load(), Replayed: c.replayed.Load(),
		Duplicates: c.duplicates.Load(), Gaps: c.gaps.Load(), Incarnations: c.incarnations.Load(),
		DeadLetters: c.deadLetters.Load(), Held: c.held.Load(),
		Predictions: c.predictions.Load(), Early: c.early.Load(), Commits: c.commits.Load(),
		Retries: c.retries.Load(), Batches: c.batches.Load(), Resets: c.resets.Load(), Forgotten: c.forgotten.Load(), Idle: c.idle.Load(), Spilled: c.spilled.Load(), Fetched: c.fetched.Load(), Away: c.away.Load(),
		Reordered: c.reordered.Load(), Claims: c.claims.Load(), Fenced: c.fenced.Load(),
		Snapshots: c.snapshots.Load(), SnapshotSize: c.snapshotBytes.Load(), Owned: c.owned.Load(), Stopped: c.stopped.Load(),
		Decode: time.Duration(c.decodeNS.Load()), Engine: time.Duration(c.engineNS.Load()), Commit: time.Duration(c.commitNS.Load()),
		Lag: max(0, c.pending.Load()) + max(0, c.waiting.Load()), Streams: c.streams.Load(), Slots: c.slots.Load(), Replaying: c.replaying.Load(),
	}
}
