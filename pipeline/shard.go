package pipeline

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

const (
	// queueLength lets receivers run ahead while the engine computes. Most of
	// what waits stays in the consumers, which bound it by bytes.
	queueLength = 64
	// batchesPerShard: one being filled and computed, one being published, and
	// one between, so that a slow answer to a commit does not stop the engine.
	batchesPerShard = 3
)

// shard owns the states of its partitions: one goroutine, one engine.
type shard struct {
	queue      chan job
	policy     reservoir.Policy
	head       *readout.Linear
	channels   int
	shape      shape     // of its states, in snapshots
	arithmetic string    // of its engine, as in a record
	mean       []float32 // what a missing first sample becomes
	hold       bool
	pool       *pool
	residents  residents
	store      *snapshots      // for rows that find no slot; nil = none may be stored
	stored     uint64          // rows so far
	last       context.Context // for the store: ends when a stop has taken too long
	decoder    *codec.Decoder
	counters   *Counters
	log        *slog.Logger

	rowBudget, maxStreams, reorder, reorderBytes, snapshotMessages int
	latency, snapshotEvery, lease, idle, forget                    time.Duration
	idleBytes                                                      int  // of an end event
	noDedup                                                        bool // see Stage.unsafe

	// scratch of the message in hand
	in                 codec.Batch
	mixed              []float32 // samples of a message of many streams
	cuts               []cut
	missing            []int32
	order, first, next []int32
	times              []int64
	ends               []bool
	closed             []*stream // whose slots may be free after the batch
	leaving            []int32   // slots that are free after the batch
	arrivals           []arrival // stored rows that the runs in hand need
	bytes, rowBytes    []byte    // of the stream to be hashed

	began      time.Time // what partitions' watches count from
	lastWarn   time.Time
	suppressed int
	usedSlots  int // as counted last
}

// shapeOf is what states of a model have in common, whatever its readouts.
// Another arithmetic (as in a record) is as good as another network.
func shapeOf(c Config, m *reservoir.Model, arithmetic string) (shape, error) {
	bare := *m
	bare.Heads, bare.Training = nil, reservoir.Training{}
	print, err := bare.Fingerprint()
	if err != nil {
		return shape{}, fmt.Errorf("pipeline: %w", err)
	}
	sh := shape{network: sha256.Sum256([]byte(print)), words: m.Network.Spec.Layout().Words, states: m.Policy.States()}
	if arithmetic != "" {
		sh.network = sha256.Sum256([]byte(print + " " + arithmetic))
	}
	if c.NonFinite == codec.Hold {
		sh.channels = len(m.Channels)
	}
	return sh, nil
}

func newShard(c Config, m *reservoir.Model, head *readout.Linear, factory EngineFactory, counters *Counters, log *slog.Logger) (*shard, error) {
	dec, err := codec.NewDecoder(codec.Schema{Channels: m.Channels, NonFinite: c.NonFinite})
	if err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	p, err := newPool(factory, m.Network, head, c.MaxSlots)
	if err != nil {
		return nil, err
	}
	arithmetic := arithmeticOf(p.engine)
	sh, err := shapeOf(c, m, arithmetic)
	if err != nil {
		return nil, err
	}
	s := &shard{
		shape: sh, arithmetic: arithmetic, reorder: max(0, c.Reorder), reorderBytes: c.ReorderBytes, snapshotMessages: c.SnapshotMessages, snapshotEvery: c.SnapshotEvery,
		queue: make(chan job, queueLength), policy: m.Policy, head: head, channels: len(m.Channels),
		mean: make([]float32, len(m.Channels)), hold: c.NonFinite == codec.Hold, pool: p, decoder: dec,
		counters: counters, log: log, rowBudget: c.RowBudget, maxStreams: c.MaxStreams, latency: c.Latency,
		lease: c.Lease, idle: c.Idle, forget: c.Forget, idleBytes: c.MaxMessage / 2, began: time.Now(),
	}
	if m.Network.Spec.Standardise {
		copy(s.mean, m.Network.Norm.Mean)
	}
	return s, nil
}

// run fills batches, computes them and passes them to the emitter, until ctx
// ends. What is still queued then was not committed and will be read again.
func (s *shard) run(ctx context.Context, out chan<- *batch, free <-chan *batch) error {
	defer close(out)
	for {
		var b *batch
		select {
		case b = <-free:
			b.reset()
		case <-ctx.Done():
			return nil
		}
		if err := s.collect(ctx, b); err != nil {
			return err
		}
		if b.messages == 0 {
			return nil // ctx has ended
		}
		if err := s.advance(b); err != nil {
			return err
		}
		if err := s.settle(b); err != nil {
			return err
		}
		out <- b // room for every batch there is
	}
}

// collect takes messages until the row budget is reached or the latency
// budget of the first is spent.
func (s *shard) collect(ctx context.Context, b *batch) error {
	select {
	case j := <-s.queue:
		if err := s.take(b, j); err != nil {
			return err
		}
	case <-ctx.Done():
		return nil
	}
	var spent <-chan time.Time
	if s.latency >= 0 {
		timer := time.NewTimer(s.latency)
		defer timer.Stop()
		spent = timer.C
	}
	for s.room(b) {
		select {
		case j := <-s.queue:
			if err := s.take(b, j); err != nil {
				return err
			}
			continue
		default:
			if spent == nil {
				return nil
			}
		}
		select {
		case j := <-s.queue:
			if err := s.take(b, j); err != nil {
				return err
			}
		case <-spent:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// take does what a job asks for.
func (s *shard) take(b *batch, j job) error {
	p := j.part
	if p.over { // its consumer may not have heard of it
		b.messages++
		return nil
	}
	switch j.order {
	case orderOpen:
		b.messages++
		return s.adopt(b, p)
	case orderTick:
		b.messages++
		if !p.open || p.failed() {
			return nil
		}
		if p.current() {
			a := b.answer(p)
			a.inSeq, a.inTime, a.commit = p.done, p.doneTime, p.tenure.named() || p.due(s, time.Now())
		}
		return s.observe(p)
	case orderClose:
		b.messages++
		a := b.answer(p)
		a.inSeq, a.inTime, a.close = p.done, p.doneTime, true
		b.full = true // nothing of another tenure of it may be in one batch with it
		return nil
	}
	return s.ingest(b, j)
}

// room bounds messages too: many may hold no row.
func (s *shard) room(b *batch) bool {
	return !b.full && len(b.x) < s.rowBudget*s.channels && b.messages < s.rowBudget
}

// advance computes the batch and frees what has ended in it.
func (s *shard) advance(b *batch) error {
	if err := s.compute(b); err != nil {
		return err
	}
	s.counters.batches.Add(1)
	if n := len(b.x) / s.channels; n > 0 {
		s.counters.batchRows.add(rowBounds, int64(n))
	}
	s.releaseSlots()
	return nil
}

// compute makes the engine take the runs in hand, and writes the scores into
// the batch's answers. The batch may go on.
func (s *shard) compute(b *batch) error {
	s.fetch()
	width, from := s.pool.engine.ScoreWidth(), len(b.scores)
	b.scores = slices.Grow(b.scores, len(b.emits)*width)[:from+len(b.emits)*width]
	scores := b.scores[from:] // where the slice grew, those before keep the old array
	start := time.Now()
	if err := s.pool.engine.Advance(b.x, b.runs, scores); err != nil {
		return fmt.Errorf("pipeline: engine %s: %w", s.pool.engine.Name(), err)
	}
	took := int64(time.Since(start))
	s.counters.engineNS.Add(took)
	if len(b.runs) > 0 {
		s.counters.stepTime.add(stepBounds, took)
	}
	for i, e := range b.emits {
		p := &b.answers[e.part].preds[e.index]
		p.Scores = scores[i*width : (i+1)*width]
		class := s.head.Class(p.Scores)
		p.Class, p.Score = int32(class), score(p.Scores, class)
	}
	b.runs, b.emits = b.runs[:0], b.emits[:0]
	return nil
}

// score is the chosen class's. With two classes there is one column, the
// score of class 1; class 0's is its opposite.
func score(scores []float32, class int) float32 {
	if len(scores) == 1 {
		if class == 0 {
			return -scores[0]
		}
		return scores[0]
	}
	return scores[class]
}

// releaseSlots frees the slots of sequences that have ended, after the engine
// call.
func (s *shard) releaseSlots() {
	for _, st := range s.closed {
		if st.seq.open() { // a window, or it has begun again
			continue
		}
		for i, slot := range st.slots {
			if slot >= 0 {
				s.pool.release(slot)
				st.slots[i] = -1
			}
		}
		s.residents.remove(st)
	}
	for _, slot := range s.leaving {
		s.pool.release(slot)
	}
	s.closed, s.leaving = s.closed[:0], s.leaving[:0]
	s.countSlots()
}

func (s *shard) countSlots() {
	used := s.pool.used()
	s.counters.slots.Add(int64(used - s.usedSlots))
	s.usedSlots = used
}

// warn logs at most a line per second: a bad producer must not fill a disk.
func (s *shard) warn(msg string, args ...any) {
	if now := time.Now(); now.Sub(s.lastWarn) >= time.Second {
		s.log.Warn(msg, append(args, "lines_suppressed", s.suppressed)...)
		s.lastWarn, s.suppressed = now, 0
		return
	}
	s.suppressed++
}

// pickHead finds the named readout, the first where no name is given.
func pickHead(m *reservoir.Model, name string) (*readout.Linear, error) {
	if len(m.Heads) == 0 {
		return nil, errors.New("pipeline: the model has no readout: train one")
	}
	if name == "" {
		return m.Heads[0], nil
	}
	var names []string
	for _, h := range m.Heads {
		if h.Name == name {
			return h, nil
		}
		names = append(names, h.Name)
	}
	return nil, fmt.Errorf("pipeline: the model has no readout %q, only %q", name, names)
}
