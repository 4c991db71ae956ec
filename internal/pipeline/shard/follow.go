package shard

import (
	"fmt"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
)

// Sequence is a stream's sequence up to a prediction.
type Sequence struct {
	codec.Prediction
	In     uint64 // input message that led to the prediction
	Stored int64  // time at which the server stored the message, ns

	Statistics []float32 // of the samples; see Answer.StatisticsOf

	Before, Last     state.Place // the stream's sample before the first (zero: not known), and the last
	Samples          int64       // input samples
	Rows             int64       // rows after the front end
	Earliest, Latest int64       // times of the samples, ns; codec.NoTime: a sample has no time

	Whole bool // the sequence's beginning was read; otherwise the sequence began earlier
	Kept  Kept
}

// Kept is the content of a sequence, up to Followed.Keep values.
type Kept struct {
	Parts []Part    // in their order
	X     []float32 // its rows, as passed to the engine
	More  bool      // the sequence has more rows
}

// Part is a message's part of a sequence.
type Part struct {
	Message          uint64 // of the input
	Row, Samples     uint32 // index of the first sample's row, and number of samples
	Earliest, Latest int64  // times of the samples, ns; codec.NoTime: a sample has no time
}

// Followed selects the features that a caller wants.
type Followed struct {
	Stream func(name string) bool // selects streams; nothing is computed for other streams
	Want   func(*Sequence) bool   // selects sequences and predictions
	Take   func(*Sequence, []float32) error
	Keep   int // values of a sequence kept for Take
}

// follower tracks the open sequences.
type follower struct {
	Followed
	open     map[*state.Stream][]Sequence // one per state
	runs     []followedRun                // runs of the batch with a slot
	extents  int                          // of the message in hand: how many are used
	channels int
	features []float32
	busy     map[int32]bool
}

// followedRun is a run that the engine computes. pred is the run's prediction, -1 =
// none; seq is the sequence up to the prediction.
type followedRun struct {
	pred int
	seq  Sequence
}

// FollowSequences makes ComputeFeatures the way to compute a batch. The state must not
// be encoded afterwards: it lacks the rows of unselected streams.
func (d *Direct) FollowSequences(f Followed) {
	d.shard.Machine.Extents = true
	d.shard.follow = &follower{
		Followed: f, open: map[*state.Stream][]Sequence{}, busy: map[int32]bool{}, channels: d.shard.Machine.Channels,
		features: make([]float32, d.shard.pool.engine.Network().Spec.FeatureCount()),
	}
}

func (f *follower) beginMessage() { f.extents = 0 }

func (f *follower) takesRun(b *Batch, r *state.Run, pred int) bool {
	if r.Drop {
		delete(f.open, r.Stream)
		return true // the stream may have slots
	}
	e := &b.Fx.Extents[f.extents]
	f.extents++
	if !f.Stream(r.Stream.ID) {
		return false
	}
	open := f.open[r.Stream]
	if open == nil {
		open = make([]Sequence, len(r.Stream.Slots))
		for i := range open { // if a sequence began before the first message read, some times are unknown
			open[i].Earliest, open[i].Latest = codec.NoTime, codec.NoTime
		}
		f.open[r.Stream] = open
	}
	q := &open[r.Phase]
	if r.Reset {
		*q = Sequence{Before: e.Before, Earliest: math.MaxInt64, Latest: math.MinInt64, Whole: true}
	}
	q.Last, q.Samples, q.Rows = e.Last, e.Samples, q.Rows+int64(r.To-r.From)
	if e.Earliest == codec.NoTime || q.Earliest == codec.NoTime {
		q.Earliest, q.Latest = codec.NoTime, codec.NoTime
	} else {
		q.Earliest, q.Latest = min(q.Earliest, e.Earliest), max(q.Latest, e.Latest)
	}
	q.Kept.addSamples(e, b.Fx.X[int(r.From)*f.channels:int(r.To)*f.channels], f.Keep)
	if !r.Emit {
		pred = -1
	}
	f.runs = append(f.runs, followedRun{pred, *q})
	if r.End && !r.Open {
		delete(f.open, r.Stream)
	}
	return true
}

// addSamples adds the samples of a run, up to keep values.
func (k *Kept) addSamples(e *state.Extent, x []float32, keep int) {
	if e.Count == 0 || keep == 0 {
		return
	}
	if k.More = k.More || len(k.X)+len(x) > keep; k.More {
		return
	}
	k.Parts = append(k.Parts, Part{e.Message, e.FirstRow, e.Count, e.Earliest, e.Latest})
	k.X = append(k.X, x...)
}

// ComputeFeatures computes the batch, instead of FinishBatch, and passes on the
// selected features. Its results are valid until BeginBatch.
func (d *Direct) ComputeFeatures() ([]state.DeadLetter, error) {
	s, b := d.shard, d.batch
	f := s.follow.(*follower)
	err := f.compute(&s.slots, b, &b.Answers[0])
	f.runs = f.runs[:0]
	b.runs, b.emits = b.runs[:0], b.emits[:0]
	s.waves.finishWaves()
	s.releaseSlots()
	d.part.State.ForgetChanges()
	var dead []state.DeadLetter
	for _, r := range b.Dead {
		dead = append(dead, r.DeadLetter)
	}
	return dead, err
}

// compute computes the pending runs in as many engine calls as needed: each call ends
// before a slot with selected features continues.
func (f *follower) compute(s *slots, b *Batch, a *Answer) error {
	width := s.pool.engine.ScoreWidth()
	for from := 0; from < len(f.runs); {
		clear(f.busy)
		to, emits := from, 0
		for ; to < len(f.runs) && !f.busy[b.runs[to].Slot]; to++ {
			if r := &f.runs[to]; r.pred >= 0 {
				emits++
				r.seq.Prediction, r.seq.In, r.seq.Stored = a.Preds[r.pred], a.At[r.pred], a.Stored[r.pred]
				r.seq.Statistics = slices.Clone(a.StatisticsOf(r.pred))
				if f.Want(&r.seq) {
					f.busy[b.runs[to].Slot] = true
				} else {
					r.pred = -1
				}
			}
		}
		b.scores = slices.Grow(b.scores[:0], emits*width)[:emits*width]
		if err := s.pool.engine.Advance(b.Fx.X, b.runs[from:to], b.scores); err != nil {
			return fmt.Errorf("pipeline: engine %s: %w", s.pool.engine.Name(), err)
		}
		for i := from; i < to; i++ {
			if f.runs[i].pred < 0 {
				continue
			}
			if err := s.pool.engine.Features(b.runs[i].Slot, f.features); err != nil {
				return fmt.Errorf("pipeline: engine %s: features: %w", s.pool.engine.Name(), err)
			}
			if err := f.Take(&f.runs[i].seq, f.features); err != nil {
				return err
			}
		}
		from = to
	}
	return nil
}
