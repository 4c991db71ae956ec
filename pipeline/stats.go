package pipeline

import (
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// Counters is what a running stage counts, and the way to see how it stands.
// The zero value is ready; one Counters may outlive several runs, of one stage
// at a time. Read it with Stats and Status, which take no lock that the stage
// works under.
type Counters struct {
	messages, rows, bytes, duplicates, gaps, incarnations, held          atomic.Uint64
	predictions, early, commits, retries, batches, replayed, restores    atomic.Uint64
	resets, forgotten, idle, spilled, fetched, reordered, claims, fenced atomic.Uint64
	deferred, losses, contradictions                                     atomic.Uint64
	snapshots, snapshotBytes                                             atomic.Uint64
	decodeNS, engineNS, commitNS, snapshotNS                             atomic.Int64
	streams, slots, replaying, owned, stopped, away, parked              atomic.Int64
	deadLetters                                                          [len(wire.ReasonNames)]atomic.Uint64
	integrity                                                            [len(integrities)]atomic.Uint64
	flagged                                                              [len(codec.FlagNames)]atomic.Uint64
	batchRows, stepTime, commitTime                                      histogram

	classes atomic.Pointer[classCounts] // nil before a run

	running atomic.Pointer[run] // for Status; nil while none is connected
}

// Stats is a snapshot of Counters: totals since the start unless they say
// "now".
type Stats struct {
	Messages   uint64 // input messages taken into account, replay excluded
	Rows       uint64 // samples in them that reached a state
	Bytes      uint64 // payload bytes of Messages
	Restores   uint64 // partitions whose state came from a snapshot
	Replayed   uint64 // input messages replayed to rebuild states
	Duplicates uint64 // messages dropped: their sequence number was known
	Gaps       uint64 // times a producer's missing messages were given up
	// Contradictions are Duplicates whose content was another than that of the
	// message that had their number, where the stage still knew it: of a key's
	// last message since the stage began, and of those that wait.
	Contradictions uint64
	Losses         uint64 // messages before which some of their partition may have been removed unread
	Incarnations   uint64 // times a producer began counting again from 1
	DeadLetters    uint64 // messages that could not be used, published as such
	Held           uint64 // missing values replaced by the previous sample's
	Predictions    uint64 // published and acknowledged, early ones included
	Early          uint64 // of these, before the end of their sequence
	Commits        uint64 // output messages acknowledged
	Retries        uint64 // publishes repeated because no answer came
	Batches        uint64 // engine calls
	Resets         uint64 // consumers that reported an error and recovered
	Forgotten      uint64 // streams forgotten at Config.MaxStreams, or after Config.Forget
	Idle           uint64 // sequences ended by a stream's silence, Config.Idle
	Spilled        uint64 // state rows stored because a shard had no free one
	Fetched        uint64 // of these, read back
	Reordered      uint64 // messages that came too early and were put in order
	Claims         uint64 // partitions taken over
	Fenced         uint64 // partitions another worker took over from this one
	Deferred       uint64 // partitions given up for a while: the server refused what they need, or did not answer
	Snapshots      uint64 // states of partitions stored
	SnapshotSize   uint64 // bytes of them

	DeadLettersBy map[string]uint64 // DeadLetters by Reason.String; every reason is in it
	PredictionsBy map[string]uint64 // Predictions by codec.Flag.Integrity; every word is in it
	PredictionsOf map[string]uint64 // Predictions by class; nil before the first run
	FlaggedBy     map[string]uint64 // Predictions by each flag they carry, as codec.FlagNames has them; every flag is in it

	Decode       time.Duration // time in the decoder, all shards
	Engine       time.Duration // time in Engine.Advance, all shards
	Commit       time.Duration // time in publishing, all emitters
	SnapshotTime time.Duration // time in storing snapshots; it passes beside the work

	BatchRows  Histogram // samples per batch, replayed ones included; batches without any are not in it
	StepTime   Histogram // seconds per engine call that had samples
	CommitTime Histogram // seconds from a batch's first publish until the server had all of it

	Lag       int64 // now: input messages stored but not yet answered
	Streams   int64 // now: streams remembered
	Slots     int64 // now: state rows in use
	Away      int64 // now: state rows stored apart
	Parked    int64 // now: messages that wait for one with a lower sequence number
	Replaying int64 // now: partitions still rebuilding states
	Owned     int64 // now: partitions this worker has claimed
	Stopped   int64 // now: partitions it has stopped for an error
}

// Stats reads all counters. They are read one after another, so a snapshot
// taken while the stage works may be off by the messages in hand.
func (c *Counters) Stats() Stats {
	s := Stats{
		Lag:      c.lag(), // first: what it does not count any more has been counted below
		Messages: c.messages.Load(), Rows: c.rows.Load(), Bytes: c.bytes.Load(), Restores: c.restores.Load(), Replayed: c.replayed.Load(),
		Duplicates: c.duplicates.Load(), Gaps: c.gaps.Load(), Losses: c.losses.Load(), Contradictions: c.contradictions.Load(), Incarnations: c.incarnations.Load(), Held: c.held.Load(),
		Predictions: c.predictions.Load(), Early: c.early.Load(), Commits: c.commits.Load(),
		Retries: c.retries.Load(), Batches: c.batches.Load(), Resets: c.resets.Load(), Forgotten: c.forgotten.Load(), Idle: c.idle.Load(), Spilled: c.spilled.Load(), Fetched: c.fetched.Load(), Away: c.away.Load(),
		Reordered: c.reordered.Load(), Claims: c.claims.Load(), Fenced: c.fenced.Load(), Deferred: c.deferred.Load(),
		Snapshots: c.snapshots.Load(), SnapshotSize: c.snapshotBytes.Load(), Owned: c.owned.Load(), Stopped: c.stopped.Load(),
		Decode: time.Duration(c.decodeNS.Load()), Engine: time.Duration(c.engineNS.Load()), Commit: time.Duration(c.commitNS.Load()), SnapshotTime: time.Duration(c.snapshotNS.Load()),
		BatchRows: c.batchRows.read(rowBounds, 1), StepTime: c.stepTime.read(stepBounds, 1e9), CommitTime: c.commitTime.read(commitBounds, 1e9),
		Streams: c.streams.Load(), Slots: c.slots.Load(), Parked: c.parked.Load(), Replaying: c.replaying.Load(),
		DeadLettersBy: map[string]uint64{}, PredictionsBy: map[string]uint64{}, FlaggedBy: map[string]uint64{},
	}
	for r := range c.deadLetters {
		n := c.deadLetters[r].Load()
		s.DeadLettersBy[wire.Reason(r).String()] = n
		s.DeadLetters += n
	}
	for i := range c.integrity {
		s.PredictionsBy[integrities[i]] = c.integrity[i].Load()
	}
	if k := c.classes.Load(); k != nil {
		s.PredictionsOf = map[string]uint64{}
		for i, label := range k.labels {
			s.PredictionsOf[label] += k.n[i].Load()
		}
	}
	for i := range c.flagged {
		s.FlaggedBy[codec.FlagNames[i]] = c.flagged[i].Load()
	}
	return s
}

// classCounts counts the predictions of each class of a run's readout.
type classCounts struct {
	labels []string
	n      []atomic.Uint64
}

// classify makes room for the classes of a run. Those of the run before go on
// where they are the same.
func (c *Counters) classify(labels []string) {
	if k := c.classes.Load(); k == nil || !slices.Equal(k.labels, labels) {
		c.classes.Store(&classCounts{labels, make([]atomic.Uint64, len(labels))})
	}
}

// integrities are the words of codec.Flag.Integrity.
var integrities = [...]string{
	codec.IntegrityComplete, codec.IntegrityEarly, codec.IntegrityIdle, codec.IntegrityHeld,
	codec.IntegrityPoisonSkipped, codec.IntegrityGap, codec.IntegrityUnlike, codec.IntegrityUnknown,
}

// integrityOf is the place of each combination of flags in integrities.
var integrityOf = func() (at [1 << len(codec.FlagNames)]uint8) {
	for f := range at {
		at[f] = uint8(slices.Index(integrities[:], codec.Flag(f).Integrity()))
	}
	return at
}()

// grade counts predictions that the server has, all of flags that have names.
func (c *Counters) grade(preds []codec.Prediction) {
	var n [len(integrities)]uint64
	var flagged [len(codec.FlagNames)]uint64
	for i := range preds {
		f := preds[i].Flags
		n[integrityOf[f]]++
		for ; f != 0; f &= f - 1 {
			flagged[bits.TrailingZeros32(uint32(f))]++
		}
	}
	if k := c.classes.Load(); k != nil {
		for i := range preds {
			k.n[preds[i].Class].Add(1)
		}
	}
	for i, n := range n {
		if n > 0 {
			c.integrity[i].Add(n)
		}
	}
	for i, n := range flagged {
		if n > 0 {
			c.flagged[i].Add(n)
		}
	}
	c.predictions.Add(uint64(len(preds)))
}
