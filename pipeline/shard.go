package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/state"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/stats"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
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
	machine    *state.Machine
	head       *readout.Linear
	names      []string // of the channels
	arithmetic string   // of its engine, as in a record
	slots
	pace     pacing
	last     context.Context // for the store: ends when a stop has taken too long
	counters *stats.Counters
	log      *slog.Logger
	rejects  rarely // of messages, and what else s.warn says
	oddities rarely // of samples
}

// slots is where a shard has the state rows of its streams: in the engine, or
// stored apart.
type slots struct {
	pool      *pool
	residents residents
	store     *store.Snapshots // for rows that find no slot; nil = none may be stored
	stored    uint64           // rows so far
	closed    []*state.Stream  // whose slots may be free after the batch
	leaving   []int32          // slots that are free after the batch
	arrivals  []arrival        // stored rows that the runs in hand need
	usedSlots int              // as counted last
}

// pacing is when a shard computes, stores and looks around.
type pacing struct {
	rowBudget, snapshotMessages   int
	latency, snapshotEvery, lease time.Duration
	idle, forget                  time.Duration
	idleBytes                     int       // of an end event
	began                         time.Time // what partitions' watches count from
}

// config is what a shard must know of a job's configuration; see
// pipeline.Config.
type config struct {
	RowBudget, SnapshotMessages, MaxMessage int
	MaxSlots, MaxStreams                    int
	Reorder, ReorderBytes                   int
	NonFinite                               codec.NonFinite
	Latency, SnapshotEvery, Lease           time.Duration
	Idle, Forget                            time.Duration
}

func newShard(c config, m *reservoir.Model, head *readout.Linear, factory engineFactory, counters *stats.Counters, log *slog.Logger) (*shard, error) {
	dec, err := codec.NewDecoder(codec.Schema{Channels: m.Channels, NonFinite: c.NonFinite})
	if err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	p, err := newPool(factory, m.Network, head, c.MaxSlots)
	if err != nil {
		return nil, err
	}
	arithmetic := arithmeticOf(p.engine)
	r, err := rulesOf(c, m, arithmetic)
	if err != nil {
		return nil, err
	}
	return &shard{
		queue: make(chan job, queueLength), machine: state.NewMachine(r, timed{dec, counters}), head: head, names: m.Channels, arithmetic: arithmetic,
		slots:    slots{pool: p},
		counters: counters, log: log,
		pace: pacing{
			rowBudget: c.RowBudget, snapshotMessages: c.SnapshotMessages, latency: c.Latency, snapshotEvery: c.SnapshotEvery,
			lease: c.Lease, idle: c.Idle, forget: c.Forget, idleBytes: c.MaxMessage / 2, began: time.Now(),
		},
	}, nil
}

// rulesOf are a configuration's and a model's.
func rulesOf(c config, m *reservoir.Model, arithmetic string) (state.Rules, error) {
	hold := c.NonFinite == codec.Hold
	sh, err := state.ShapeOf(m, arithmetic, hold)
	if err != nil {
		return state.Rules{}, err
	}
	r := state.Rules{
		Policy: m.Policy, Channels: len(m.Channels), Mean: make([]float32, len(m.Channels)), Hold: hold, Training: m.Training, Shape: sh,
		MaxStreams: c.MaxStreams, Reorder: max(0, c.Reorder), ReorderBytes: c.ReorderBytes,
	}
	if m.Network.Spec.Standardise {
		copy(r.Mean, m.Network.Norm.Mean)
	}
	return r, nil
}

// run fills batches, computes them and passes them to the emitter, until ctx
// ends. What is still queued then was not committed and will be read again.
func (s *shard) run(ctx context.Context, out chan<- *batch, free <-chan *batch) error {
	defer close(out)
	for {
		var b *batch
		select {
		case b = <-free:
		case <-ctx.Done():
			return nil
		}
		if err := s.next(ctx, b); err != nil {
			return err
		}
		if b.messages == 0 {
			return nil // ctx has ended
		}
		out <- b // room for every batch there is
	}
}

// next fills a batch again and computes it. Without messages in it, ctx has ended.
func (s *shard) next(ctx context.Context, b *batch) error {
	b.reset()
	if err := s.collect(ctx, b); err != nil || b.messages == 0 {
		return err
	}
	if err := s.advance(b); err != nil {
		return err
	}
	return s.finalise(b)
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
	if s.pace.latency >= 0 {
		timer := time.NewTimer(s.pace.latency)
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
		return s.install(b, p)
	case orderTick:
		b.messages++
		if !p.open || p.failed() {
			return nil
		}
		if p.state.Current() || p.state.Done == 0 && p.state.ReplayTo == 0 {
			a := b.answer(p)
			a.inSeq, a.inTime, a.tick = p.state.Done, p.state.DoneTime, true
		}
		return s.observe(p)
	case orderClose:
		b.messages++
		a := b.answer(p)
		a.inSeq, a.inTime, a.close = p.state.Done, p.state.DoneTime, true
		b.full = true // nothing of another ownership of it may be in one batch with it
		return nil
	}
	return s.ingest(b, j)
}

// room bounds messages too: many may hold no row.
func (s *shard) room(b *batch) bool {
	return !b.full && len(b.fx.X) < s.pace.rowBudget*s.machine.Channels && b.messages < s.pace.rowBudget
}

// warn logs at most a line per second: a bad producer must not fill a disk.
func (s *shard) warn(msg string, args ...any) { s.rejects.warn(s.log, msg, args...) }

// rarely lets a line through per second.
type rarely struct {
	last       time.Time
	suppressed int
}

func (r *rarely) warn(log *slog.Logger, msg string, args ...any) {
	if now := time.Now(); now.Sub(r.last) >= time.Second {
		log.Warn(msg, append(args, "lines_suppressed", r.suppressed)...)
		r.last, r.suppressed = now, 0
		return
	}
	r.suppressed++
}
