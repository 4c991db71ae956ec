package shard

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/dynamics"
	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/stats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/trace"
	"github.com/eusn-stream/eusn-stream/internal/track"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

const (
	// QueueLength lets receivers run ahead while the engine computes. Most waiting
	// messages stay in the consumers, limited by bytes.
	QueueLength = 64
	// BatchesPerShard: a batch is filled and computed, a second batch is published, and
	// a third batch is in between, so that a slow commit does not stop the engine.
	BatchesPerShard = 3
)

// Shard owns the states of its partitions: one goroutine, one engine.
type Shard struct {
	Queue      chan Job
	Machine    *state.Machine
	names      []string // of the channels
	Arithmetic string   // of its engine, as in a record
	slots
	under batches
	pace  pacing
	// Uploads counts the bytes of snapshots in upload, except the last snapshots of
	// partitions in release.
	Uploads  atomic.Int64
	log      *slog.Logger
	rejects  rarely // limits warnings about messages and other warnings of s.warnRarely
	oddities rarely // of samples
	looking  looking
	tracer   trace.Tracer // nil: no message is traced
	// Clock measures how the shard spends time. Every goroutine may read it.
	Clock stats.Clock
}

// manyUploads is how many bytes of snapshots may be in upload when another snapshot is
// taken. Snapshots of partitions that begin together are due together; all uploads at
// the same time would double the memory of all states, and exceed a server's
// throughput.
const manyUploads = 64 << 20

// pacing is when a shard computes, stores and looks around.
type pacing struct {
	rowBudget, snapshotMessages   int
	latency, snapshotEvery, lease time.Duration
	idle, forget                  time.Duration
	idleBytes                     int       // of an end event
	began                         time.Time // the zero of the partitions' watches
}

// Config is a shard's part of a job's configuration; see pipeline.Config.
type Config struct {
	RowBudget, SnapshotMessages, MaxMessage int
	MaxSlots, MaxStreams                    int
	Reorder, ReorderBytes                   int
	MaxKey                                  int             // bytes of a key; 0 = any number
	Keys                                    *names.Patterns // see state.Rules
	NonFinite                               codec.NonFinite
	RateTolerance                           float64
	Input                                   formats.Input
	Latency, SnapshotEvery, Lease           time.Duration
	Idle, Forget                            time.Duration
	Events                                  string // see state.Rules
}

// New makes a shard with an engine of few slots, which grows. counters counts decoded
// samples, slots and rows.
func New(c Config, m *reservoir.Model, linear *readout.Linear, factory engineFactory, counters *stats.Counters, log *slog.Logger) (*Shard, error) {
	dec, err := formats.New(c.Input, codec.Schema{Channels: m.Channels, NonFinite: c.NonFinite})
	if err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	p, err := newPool(factory, m.Network, linear, c.MaxSlots)
	if err != nil {
		return nil, err
	}
	arithmetic := arithmeticOf(p.engine)
	r, err := rulesOf(c, m, arithmetic)
	if err != nil {
		return nil, err
	}
	return &Shard{
		Queue: make(chan Job, QueueLength), Machine: state.NewMachine(r, newTimed(dec, counters, log)), names: m.Channels, Arithmetic: arithmetic,
		slots: slots{pool: p, readouts: readouts{first: linear, all: []scored{scoredBy("", linear)}}, words: r.Shape.Words, policy: m.Policy, counters: counters},
		log:   log,
		pace: pacing{
			rowBudget: c.RowBudget, snapshotMessages: c.SnapshotMessages, latency: c.Latency, snapshotEvery: c.SnapshotEvery,
			lease: c.Lease, idle: c.Idle, forget: c.Forget, idleBytes: c.MaxMessage / 2, began: time.Now(),
		},
	}, nil
}

// StoreRows sets the store of states without a slot, nil = none, and the limit of
// requests to the server: last ends when a stop has taken too long. Call it before the
// shard runs.
func (s *Shard) StoreRows(in *store.Snapshots, last context.Context) { s.store, s.last = in, last }

// SetCarried sets the share of the predictions that carry their features. Call it
// before the shard runs.
func (s *Shard) SetCarried(share float64) {
	s.carry = carrying{share: share, features: s.pool.engine.Network().Spec.FeatureCount()}
}

// SampleStates counts the properties of some states of each snapshot in states. Call it
// before the shard runs.
func (s *Shard) SampleStates(states *stats.States) {
	s.looking = looking{at: dynamics.NewLook(s.pool.engine.Network().Spec), states: states}
}

// SetTracer sets the tracer, which selects the traced messages. Call SetTracer before
// the shard runs.
func (s *Shard) SetTracer(t trace.Tracer) { s.tracer = t }

// SetReadouts sets the source of promoted readouts. Call it before the shard runs.
func (s *Shard) SetReadouts(all Readouts) { s.readouts.source = all }

// LastContext ends when a stop has taken too long: afterwards, the server is not used
// for the shard's partitions.
func (s *Shard) LastContext() context.Context { return s.last }

// EngineName is the name of the shard's engine. Every goroutine may ask.
func (s *Shard) EngineName() string { return *s.pool.name.Load() }

// Close frees the shard's current engine. The shard must not run.
func (s *Shard) Close() error { return s.pool.engine.Close() }

// rulesOf are a configuration's and a model's.
func rulesOf(c Config, m *reservoir.Model, arithmetic string) (state.Rules, error) {
	sh, err := state.ShapeOf(m, arithmetic)
	if err != nil {
		return state.Rules{}, err
	}
	r := state.Rules{
		Rules: track.Rules{
			Policy: m.Policy, Channels: len(m.Channels), Mean: make([]float32, len(m.Channels)), Hold: c.NonFinite == codec.Hold, Front: m.Front, Training: m.Training, RateTolerance: c.RateTolerance,
		},
		Shape:      sh,
		MaxStreams: c.MaxStreams, Reorder: max(0, c.Reorder), ReorderBytes: c.ReorderBytes, MaxKey: c.MaxKey, Keys: c.Keys, Events: c.Events,
	}
	if m.Network.Spec.Standardize || m.Front != nil {
		copy(r.Mean, m.FirstMissing())
	}
	return r, nil
}

// Run fills batches, computes batches and passes them to the emitter, until ctx ends.
// Jobs still queued were not committed and will be read again.
func (s *Shard) Run(ctx context.Context, out chan<- *Batch, free <-chan *Batch) error {
	defer close(out)
	s.under = batches{free: free}
	for {
		s.Clock.TurnTo(stats.Waiting)
		b := s.under.waitForBatch(ctx)
		s.Clock.TurnTo(stats.Busy)
		if b == nil {
			return nil
		}
		if err := s.Next(ctx, b); err != nil {
			return err
		}
		if b.messages == 0 {
			return nil // ctx has ended
		}
		out <- b // capacity for all batches
	}
}

// Next refills a batch and computes it. An empty batch means that ctx has ended.
func (s *Shard) Next(ctx context.Context, b *Batch) error {
	b.Reset()
	if err := s.CollectBatch(ctx, b); err != nil || b.messages == 0 {
		return err
	}
	if err := s.AdvanceBatch(b); err != nil {
		return err
	}
	err := s.finishBatch(b)
	if b.traced {
		b.Computed = time.Now()
	}
	return err
}

// AdvanceBatch computes the batch and frees the slots of ended sequences.
func (s *Shard) AdvanceBatch(b *Batch) error {
	if err := s.computeBatch(b); err != nil {
		return err
	}
	s.counters.Batches.Add(1)
	if n := len(b.Fx.X) / s.Machine.Channels; n > 0 {
		s.counters.BatchRows.AddValue(stats.RowBounds, int64(n))
	}
	s.releaseSlots()
	return nil
}

// CollectBatch collects messages until the row budget is reached or the latency budget
// of the first message is spent. If the commits of the previous batch have no answer by
// then, the batch grows until the answers arrive and, under high load, until it has
// enough messages, or until the budget is spent `grows` times.
func (s *Shard) CollectBatch(ctx context.Context, b *Batch) error {
	s.Clock.TurnTo(stats.Idle)
	select {
	case j := <-s.Queue:
		s.Clock.TurnTo(stats.Busy)
		if err := s.takeMessage(b, j); err != nil {
			return err
		}
	case <-ctx.Done():
		return nil
	}
	var spent <-chan time.Time
	var timer *time.Timer
	if s.pace.latency >= 0 {
		timer = time.NewTimer(s.pace.latency)
		defer timer.Stop()
		spent = timer.C
	}
	var g growth
	for s.wantsMore(b, &g) {
		select {
		case j := <-s.Queue:
			if err := s.takeMessage(b, j); err != nil {
				return err
			}
			continue
		default:
			if spent == nil {
				return nil
			}
		}
		s.Clock.TurnTo(stats.Idle)
		select {
		case j := <-s.Queue:
			s.Clock.TurnTo(stats.Busy)
			if err := s.takeMessage(b, j); err != nil {
				return err
			}
		case <-spent:
			s.Clock.TurnTo(stats.Busy)
			if !s.under.growBatch(b, &g) {
				return nil
			}
			timer.Reset((grows - 1) * s.pace.latency)
		case before := <-g.answers:
			s.Clock.TurnTo(stats.Busy)
			s.under.spare = append(s.under.spare, before)
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// SetShadows sets the shadows scored from the next batch on, or from the next
// prediction on if the current batch has none. Every goroutine may call it; a change
// needs a new list.
func (s *Shard) SetShadows(all *[]Shadow) { s.readouts.wanted.Store(all) }

// ShadowCount is how many shadows are wanted. Every goroutine may ask.
func (s *Shard) ShadowCount() int {
	if want := s.readouts.wanted.Load(); want != nil {
		return len(*want)
	}
	return 0
}

// shadowOf gives a batch without scores the wanted shadows.
func (s *Shard) shadowOf(b *Batch) error {
	if len(b.emits)+len(b.scores) > 0 {
		return nil
	}
	all, left, refused, err := s.loadShadows()
	if refused != nil {
		s.warnRarely("the engine has no room for the shadows: they predict nothing until the job has fewer or smaller shadows", "err", refused)
	}
	b.Shadows, b.Refused = all, left
	return err
}

// takeMessage executes a job.
func (s *Shard) takeMessage(b *Batch, j Job) error {
	if err := s.shadowOf(b); err != nil {
		return err
	}
	p := j.Part
	if p.over { // its consumer may not have noticed the end
		b.messages++
		return nil
	}
	switch j.Order {
	case OrderOpen:
		b.messages++
		return s.InstallPartition(b, p)
	case OrderTick:
		b.messages++
		if !p.open || p.Failed() {
			return nil
		}
		if p.State.Current() || p.State.Done == 0 && p.State.ReplayTo == 0 {
			a := b.answerOf(p)
			a.InSeq, a.InTime, a.Tick = p.State.Done, p.State.DoneTime, true
		}
		return s.watchSilence(p)
	case OrderClose:
		b.messages++
		a := b.answerOf(p)
		a.InSeq, a.InTime, a.Close = p.State.Done, p.State.DoneTime, true
		b.full = true // a batch must not mix two ownerships of a partition
		return nil
	}
	return s.takeJob(b, j)
}

// mostCarried is how many bytes of features a batch may have when another message is
// added.
const mostCarried = 64 << 20

// hasRoom bounds messages too: many may hold no row.
func (s *Shard) hasRoom(b *Batch) bool {
	return !b.full && b.carried < mostCarried && len(b.Fx.X) < s.pace.rowBudget*s.Machine.Channels && b.messages < s.pace.rowBudget
}

// wantsMore reports whether a batch may wait for more messages.
func (s *Shard) wantsMore(b *Batch, g *growth) bool {
	return s.hasRoom(b) && (g.answers == nil || s.under.isBusy() || b.messages < g.least)
}

// warnRarely logs at most a line per second: a bad producer must not fill a disk.
func (s *Shard) warnRarely(msg string, args ...any) { s.rejects.warnRarely(s.log, msg, args...) }

// rarely lets a line through per second.
type rarely struct {
	last       time.Time
	suppressed int
}

func (r *rarely) warnRarely(log *slog.Logger, msg string, args ...any) {
	if now := time.Now(); now.Sub(r.last) >= time.Second {
		log.Warn(msg, append(args, "lines_suppressed", r.suppressed)...)
		r.last, r.suppressed = now, 0
		return
	}
	r.suppressed++
}
