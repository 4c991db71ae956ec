package pipeline

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/stats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// Counters are a running stage's counters, and give its status. The zero value is
// ready; one Counters may outlive several runs, of one stage at a time. Read Counters
// with Stats and Status: neither takes a lock used by the stage's work.
type Counters struct {
	counts  stats.Counters
	shadows stats.Shadows
	states  stats.States
	running atomic.Pointer[run] // for Status; nil while none is connected
}

// ShadowStats counts the predictions of one of the job's shadows.
type ShadowStats struct {
	Readout     string // its fingerprint
	Predictions uint64 // stored by the server
	Missed      uint64 // left out: not stored in time, too large for the server, or not accepted by the engine
	Agreeing    uint64 // of both: with the same class as the prediction
}

// Shadows are the counts of all shadows since the start, by their readouts.
func (c *Counters) Shadows() []ShadowStats {
	var all []ShadowStats
	c.shadows.EachShadow(func(readout string, n *stats.Shadow) {
		all = append(all, ShadowStats{readout, n.Predictions.Load(), n.Missed.Load(), n.Agreeing.Load()})
	})
	slices.SortFunc(all, func(a, b ShadowStats) int { return strings.Compare(a.Readout, b.Readout) })
	return all
}

// Answered returns the time at which the server last stored the answer to a sample; zero =
// never.
func (c *Counters) Answered() time.Time {
	if at := c.counts.Answered.Load(); at > 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// ShardTime is a shard's time by activity since its stage began.
type ShardTime struct {
	Engine  string        // its engine's name
	Busy    time.Duration // decoding, computing, maintaining its partitions
	Waiting time.Duration // for the server to store predictions
	Idle    time.Duration // without a message, or waiting for more (Config.Latency)
}

// Shards returns the times of the running stage's shards; nil without a connected stage.
func (c *Counters) Shards() (all []ShardTime) {
	r := c.running.Load()
	if r == nil {
		return nil
	}
	for _, sh := range r.shards {
		spent := sh.Clock.Read()
		all = append(all, ShardTime{sh.EngineName(), spent[stats.Busy], spent[stats.Waiting], spent[stats.Idle]})
	}
	return all
}

// StateStats describes a sample of the open sequences' states, some of each snapshot:
// package internal/dynamics explains the figures.
type StateStats struct {
	Saturated Histogram // share of saturated units; one value per state
	Size      Histogram // root mean square of the units; one value per state
}

// States returns the statistics since the start.
func (c *Counters) States() StateStats {
	return StateStats{
		Saturated: Histogram(c.states.Saturated.Read(stats.ShareBounds, stats.StateUnit)),
		Size:      Histogram(c.states.Size.Read(stats.SizeBounds, stats.StateUnit)),
	}
}

// Stats is a snapshot of Counters: totals since the start unless the comment begins
// with "now".
type Stats struct {
	Messages   uint64 // input messages taken into account, replay excluded
	Rows       uint64 // samples that reached a state
	Bytes      uint64 // payload bytes of Messages
	Restores   uint64 // partitions with a state from a snapshot
	Replayed   uint64 // input messages replayed to rebuild states
	Duplicates uint64 // messages dropped: their sequence number was known
	Gaps       uint64 // times a producer's missing messages were given up
	// Contradictions are Duplicates whose content differed from the first message with
	// the same number, as far as the stage knew it: for a key's last message since the
	// stage began, and for held messages.
	Contradictions uint64
	Losses         uint64 // messages before which unread input of their partition may have been removed
	FarTimes       uint64 // samples with a time before 2000, or more than a day from the storage of their message
	Incarnations   uint64 // restarts of a producer's numbers from 1
	DeadLetters    uint64 // unusable messages, published as dead letters
	Held           uint64 // missing values replaced by the previous sample's
	Predictions    uint64 // published and acknowledged, early predictions included
	Early          uint64 // of these, before the end of their sequence
	Commits        uint64 // output messages acknowledged
	Retries        uint64 // publishes repeated because no answer came
	Batches        uint64 // engine calls
	Resets         uint64 // consumers that recovered from an error
	Forgotten      uint64 // streams forgotten at Config.MaxStreams, or after Config.Forget
	New            uint64 // streams unknown to their partition
	Abandoned      uint64 // open sequences lost because their stream was forgotten at Config.MaxStreams
	Idle           uint64 // sequences ended by a stream's silence, Config.Idle
	Spilled        uint64 // state rows stored because a shard had no free slot
	Fetched        uint64 // of these, read back
	Reordered      uint64 // messages that came too early and were put in order
	Claims         uint64 // partitions taken over
	Fenced         uint64 // partitions taken over from this worker by another
	Deferred       uint64 // partitions given up for a while: the server refused a request, or did not answer
	Snapshots      uint64 // states of partitions stored
	SnapshotSize   uint64 // bytes of the snapshots

	DeadLettersBy map[string]uint64 // DeadLetters by reason: key, header, checksum, malformed, schema, value, time, streams, event; all are present
	PredictionsBy map[string]uint64 // Predictions by outcome.Flag.Integrity; contains every word
	PredictionsOf map[string]uint64 // Predictions by class; nil before the first run
	FlaggedBy     map[string]uint64 // Predictions by flag, as in outcome.FlagNames; contains every flag

	Decode       time.Duration // time in the decoder, all shards
	Engine       time.Duration // time in Engine.Advance, all shards
	Commit       time.Duration // time in publishing, all emitters
	SnapshotTime time.Duration // time for storing snapshots, in parallel to other work

	BatchRows  Histogram // samples per batch, replayed samples included; without empty batches
	StepTime   Histogram // seconds per engine call with samples
	CommitTime Histogram // seconds from a batch's first publish until the server has stored the whole batch

	Lag     int64 // now: input messages stored but not yet answered
	Streams int64 // now: streams remembered
	Slots   int64 // now: state rows in use
	Away    int64 // now: state rows stored apart
	Parked  int64 // now: messages held for a message with a lower number
	// ReplicasBehind counts, now, replicas of the job's input and output that the
	// server has reported as not current for a while.
	ReplicasBehind int64
	Replaying      int64 // now: partitions still rebuilding states
	Owned          int64 // now: partitions this worker has claimed
	Stopped        int64 // now: partitions stopped by an error
}

// Stats reads all counters. They are read one after another, so a snapshot taken while
// the stage works may differ by the messages in progress.
func (c *Counters) Stats() Stats {
	lag := c.totalLag() // first: messages no longer in the lag are counted below
	s := readCounters(&c.counts)
	s.Lag = lag
	return s
}

func readCounters(n *stats.Counters) Stats {
	s := Stats{
		Messages: n.Messages.Load(), Rows: n.Rows.Load(), Bytes: n.Bytes.Load(), Restores: n.Restores.Load(), Replayed: n.Replayed.Load(),
		Duplicates: n.Duplicates.Load(), Gaps: n.Gaps.Load(), Losses: n.Losses.Load(), Contradictions: n.Contradictions.Load(), FarTimes: n.FarTimes.Load(), Incarnations: n.Incarnations.Load(), Held: n.Held.Load(),
		Predictions: n.Predictions.Load(), Early: n.Early.Load(), Commits: n.Commits.Load(),
		Retries: n.Retries.Load(), Batches: n.Batches.Load(), Resets: n.Resets.Load(), Forgotten: n.Forgotten.Load(), New: n.New.Load(), Abandoned: n.Abandoned.Load(), Idle: n.Idle.Load(), Spilled: n.Spilled.Load(), Fetched: n.Fetched.Load(), Away: n.Away.Load(),
		Reordered: n.Reordered.Load(), Claims: n.Claims.Load(), Fenced: n.Fenced.Load(), Deferred: n.Deferred.Load(),
		Snapshots: n.Snapshots.Load(), SnapshotSize: n.SnapshotBytes.Load(), Owned: n.Owned.Load(), Stopped: n.Stopped.Load(),
		Decode: time.Duration(n.Spent.Decode.Load()), Engine: time.Duration(n.Spent.Engine.Load()), Commit: time.Duration(n.Spent.Commit.Load()), SnapshotTime: time.Duration(n.Spent.Snapshot.Load()),
		BatchRows: Histogram(n.BatchRows.Read(stats.RowBounds, 1)), StepTime: Histogram(n.StepTime.Read(stats.StepBounds, 1e9)), CommitTime: Histogram(n.CommitTime.Read(stats.CommitBounds, 1e9)),
		Streams: n.Streams.Load(), Slots: n.Slots.Load(), Parked: n.Parked.Load(), ReplicasBehind: n.Server.Behind.Load(), Replaying: n.Replaying.Load(),
		DeadLettersBy: map[string]uint64{}, PredictionsBy: map[string]uint64{}, FlaggedBy: map[string]uint64{},
	}
	for r := range n.DeadLetters {
		count := n.DeadLetters[r].Load()
		s.DeadLettersBy[wire.Reason(r).String()] = count
		s.DeadLetters += count
	}
	for i := range n.Integrity {
		s.PredictionsBy[stats.Integrities[i]] = n.Integrity[i].Load()
	}
	if k := n.Classes.Load(); k != nil {
		s.PredictionsOf = map[string]uint64{}
		for i, label := range k.Labels {
			s.PredictionsOf[label] += k.N[i].Load()
		}
	}
	for i := range n.Flagged {
		s.FlaggedBy[outcome.FlagNames[i]] = n.Flagged[i].Load()
	}
	return s
}

// Histogram counts values by size.
type Histogram struct {
	Bounds []float64 // upper bounds of the buckets, ascending, inclusive
	Counts []uint64  // values in each bucket, and in a last bucket above all bounds
	Sum    float64   // of all values
}
