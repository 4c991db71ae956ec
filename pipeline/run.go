package pipeline

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/stats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// run is one Worker.Run.
type run struct {
	worker   *Worker
	cfg      Config
	log      *slog.Logger
	counters *stats.Counters
	shown    *Counters // the counters of this run
	now      func() time.Time
	self     self

	server  owner.Server
	began   map[string]time.Time // when the NATS streams of input and output were created
	members *members
	conns   connections

	empty    []byte // a message of no predictions
	limit    int    // bytes of a message's body the server takes
	shards   []*shard.Shard
	emitters []*owner.Emitter
	owners   *owner.Worker   // shared by the ownerships
	workers  context.Context // ends with the shards
	cut      func()          // ends the time for last commits

	view     atomic.Pointer[view] // data for Status
	stopping atomic.Bool
}

func (w *Worker) prepareRun() (*run, error) {
	if w.Dial == nil {
		return nil, errors.New("pipeline: stage without model, engine factory or connection")
	}
	if w.NewPartitions < 0 || w.NewPartitions > maxPartitions {
		return nil, fmt.Errorf("pipeline: new partitions = %d, want 0 to %d", w.NewPartitions, maxPartitions)
	}
	if !(w.Carry >= 0 && w.Carry <= 1) {
		return nil, fmt.Errorf("pipeline: a share of %g of the predictions carries its features, want 0 to 1", w.Carry)
	}
	p, err := w.prepare()
	if err != nil {
		return nil, err
	}
	r := &run{worker: w, cfg: p.Config, log: p.Log, shown: w.Counters, now: w.leaseClock()}
	if r.shown == nil {
		r.shown = new(Counters)
	}
	r.counters = &r.shown.counts
	r.conns.job = r.cfg.Job
	r.self.worker = rand.Text() // the name appears in outputs; it must not reveal the consumers' names
	r.setModel(p.linear, p.meta)
	return r, nil
}

// openRun connects, creates or checks the job's NATS streams, joins the job, and sets up
// shards and emitters.
func (r *run) openRun(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		r.connectServer,
		r.retrying(r.ensureStreams), r.retrying(r.settleInput), r.retrying(r.settleModel),
		r.openShards,
		r.retrying(r.openJob), r.retrying(r.publishModel), r.retrying(r.joinJob),
		r.retrying(r.confirmSource),
		r.openShadows,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	var err error
	r.owners.Generation, r.owners.Drain, err = generationOf(r.worker.drain, r.cfg, r.self.resize)
	return err
}

// connectServer opens the connection of the commits, and checks the server.
func (r *run) connectServer(ctx context.Context) error {
	r.conns.open = func(name string) (*nats.Conn, error) { return r.worker.Dial(ctx, name) }
	nc, err := r.conns.dialAnother("commit")
	if err != nil {
		return err
	}
	if int(nc.MaxPayload()) < r.cfg.MinPayload() {
		lower := ""
		if room := int(nc.MaxPayload()) - deadLetterRoom; room > 0 {
			lower = fmt.Sprintf("lower it to %d, or ", room)
		}
		return fmt.Errorf("pipeline: the server accepts messages of at most %d bytes, but max message (input.max_message) %d needs %d: %sraise the server's max_payload",
			nc.MaxPayload(), r.cfg.MaxMessage, r.cfg.MinPayload(), lower)
	}
	r.limit = int(nc.MaxPayload()) - store.HeaderRoom
	if err := natsclient.AwaitJetStream(ctx, nc); err != nil {
		return err
	}
	r.server.JS, err = jetstream.New(nc, jetstream.WithPublishAsyncTimeout(store.CommitTimeout), jetstream.WithPublishAsyncMaxPending(2*maxPartitions))
	if err != nil {
		return fmt.Errorf("pipeline: JetStream: %w", err)
	}
	r.server.Link = store.Follow(nc)
	return checkDomains(ctx, nc, r.server.JS, r.cfg.Job)
}

// joinJob joins the job with this worker's model.
func (r *run) joinJob(ctx context.Context) error {
	try, cancel := context.WithTimeout(ctx, joinWait)
	defer cancel()
	if err := r.self.joinJob(try, r.server, r.members, r.cfg.Job, r.log); err != nil {
		return err
	}
	r.server.In.From, r.owners.Server.Entered = r.self.source.From, r.self.entered
	if r.self.entered {
		store.MarkBegun(ctx, r.server.JS, r.server.Link, r.cfg.Job, r.cfg.Shared.Job == "", r.log)
	}
	return nil
}

// confirmSource rechecks the job with the input.
func (r *run) confirmSource(ctx context.Context) error {
	if r.worker.drain != nil {
		return nil
	}
	return stillSettled(ctx, r.server.JS, r.cfg.Job, r.self.source)
}

// ensureStreams creates or checks the job's NATS streams. A worker that leaves
// the number of partitions open takes the job's, also where another worker makes
// the job at the same time.
func (r *run) ensureStreams(ctx context.Context) error {
	if r.worker.drain != nil {
		return r.drainedInput(ctx)
	}
	cfg, source, err := settleSource(ctx, r.server.JS, r.worker.Config)
	if err == nil {
		err = store.CheckOutput(ctx, r.server.JS, r.cfg.Job, cmp.Or(cfg.Shared.Job, r.cfg.Job))
	}
	if err == nil {
		r.self.source = source
		r.cfg.Input, err = formatOn(ctx, r.server.JS, r.cfg.Job, source, r.cfg.Input, r.worker.Model.Channels)
	}
	if err == nil {
		cfg, err = ensureJob(ctx, r.server.JS, cfg, r.worker.NewPartitions, r.log)
	}
	if err == nil {
		err = cfg.Validate() // with the job's partitions
	}
	if err == nil {
		r.cfg.Partitions, r.cfg.Shards = cfg.Partitions, cfg.Shards
		r.cfg.Shared, r.cfg.InputSubject, r.cfg.MaxMessage = cfg.Shared, cfg.InputSubject, cfg.MaxMessage
	}
	return err
}

// drainedInput uses the input of a job in change: the NATS streams exist, and the job's
// own input already assigns keys to other partitions.
func (r *run) drainedInput(ctx context.Context) error {
	r.self.source = r.worker.drain.Source
	other := r.self.source.Job
	if other == "" {
		return nil
	}
	in, err := r.server.JS.Stream(ctx, wire.InputStream(other))
	if err != nil {
		return fmt.Errorf("pipeline: %w", err)
	}
	cfg := r.worker.Config
	cfg.Shared.Job = other
	if cfg, err = cfg.onInput(in); err == nil {
		r.cfg.Shared, r.cfg.InputSubject, r.cfg.MaxMessage = cfg.Shared, cfg.InputSubject, cfg.MaxMessage
	}
	return err
}

// settleInput decides this run's input format, before decoders are made. A worker with
// an open format uses the job's.
func (r *run) settleInput(ctx context.Context) error {
	if r.cfg.Input.IsPlain() {
		out, err := r.server.JS.Stream(ctx, wire.OutputStream(r.cfg.Job))
		if err != nil {
			return fmt.Errorf("pipeline: %w", err)
		}
		if r.cfg.Input, err = inputOf(ctx, out, r.cfg.Job, r.worker.Model, r.self.readout, r.cfg.Input); err != nil {
			return err
		}
		if f := r.cfg.Input.Format; f != formats.Auto {
			r.log.Info("the job began with this input format", "format", string(f))
		}
	}
	r.self.input = r.cfg.Input
	return nil
}

// openShards makes the engines and their users; with the engines' arithmetic, the
// worker's model has its identity.
func (r *run) openShards(ctx context.Context) error {
	dead := &store.DeadLetters{JS: r.server.JS, Link: r.server.Link, Job: r.cfg.Job, Input: r.cfg.inputJob(), Limit: r.limit + store.HeaderRoom, Retries: func() { r.counters.Retries.Add(1) }}
	var err error
	if r.self.readouts, err = readoutsOf(ctx, r.server.JS, r.cfg.Job, r.worker.Model); err != nil {
		return err
	}
	first, err := readoutName(r.worker.Model, r.self.readout)
	if err != nil {
		return err
	}
	out, err := r.server.JS.Stream(ctx, wire.OutputStream(r.cfg.Job))
	if err != nil {
		return fmt.Errorf("pipeline: %w", err)
	}
	begun := wire.CreatedText(out.CachedInfo().Created)
	patience := cmp.Or(r.worker.shadowing, store.ShadowPatience)
	shadows, err := store.ShadowPublisher(r.server.JS.Conn(), maxPartitions, patience)
	if err != nil {
		return err
	}
	for range r.cfg.Shards {
		s, err := shard.New(r.cfg.shardConfig(), r.worker.Model, r.self.readout, r.worker.NewEngine, r.counters, r.log)
		if err != nil {
			return err
		}
		r.self.engine = s.EngineName()
		if r.worker.guard.turn != nil {
			s.Machine.Turn = r.worker.guard.turn
		}
		s.SetReadouts(r.self.readouts)
		s.SampleStates(&r.shown.states)
		s.Clock.StartClock() // before Counters knows the run, which may then be read immediately
		s.Machine.Begun = begun
		r.shards = append(r.shards, s)
		e, err := owner.NewEmitter(dead, r.self.meta, first, r.limit, r.perShard(), r.counters)
		if err != nil {
			return err
		}
		e.SetShadows(&store.Shadows{JS: shadows, Job: r.cfg.Job, Begun: begun, Patience: patience, Log: r.log}, &r.shown.shadows)
		if r.worker.tracer != nil {
			s.SetTracer(r.worker.tracer)
			e.SetTracer(r.worker.tracer, r.cfg.Job)
		}
		if r.worker.Carry > 0 {
			s.SetCarried(r.worker.Carry)
			carried := &store.Features{JS: r.server.JS, Link: r.server.Link, Job: r.cfg.Job, Network: s.Machine.Shape.Identity().Network, Begun: begun, Limit: r.limit, Retries: func() { r.counters.Retries.Add(1) }}
			if err := e.SetFeatures(carried, r.worker.Model.Network.Spec.FeatureCount()); err != nil {
				return err
			}
		}
		r.emitters = append(r.emitters, e)
	}
	r.self.model, r.self.arithmetic = r.shards[0].Machine.Shape.Identity(), r.shards[0].Arithmetic
	if r.self.model.Readout, err = readoutOf(r.worker.Model, r.self.readout, r.self.input); err != nil {
		return err
	}
	if r.worker.guard.identity != nil {
		r.self.model = r.worker.guard.identity(r.self.model)
	}
	r.self.worker = r.self.model.Sign(r.self.worker)
	return nil
}

// perShard is how many partitions a shard has at most.
func (r *run) perShard() int { return (r.cfg.Partitions + r.cfg.Shards - 1) / r.cfg.Shards }

// joinWait limits the total time of a join's requests: a few, or one for each
// partition.
const joinWait = 3 * store.CommitTimeout

// retryRequest retries, a few times, requests that time out on a loaded server or in a
// cluster that elects leaders. f must be able to continue after a failure.
func (r *run) retryRequest(ctx context.Context, f func() error) error {
	for attempt := 1; ; attempt++ {
		err := f()
		if !errors.Is(err, context.DeadlineExceeded) && !store.IsUnanswered(err) || ctx.Err() != nil || attempt == natsclient.JetStreamAttempts {
			return store.AccountWants(err)
		}
		if store.IsUnanswered(err) {
			_ = store.Pause(ctx, time.Second)
		}
		r.log.Warn("the server did not answer in time during the start, retrying", "attempt", attempt, "err", err)
	}
}

// retrying returns f with retries.
func (r *run) retrying(f func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error { return r.retryRequest(ctx, func() error { return f(ctx) }) }
}

// openJob finds the NATS streams and buckets of the job.
func (r *run) openJob(ctx context.Context) error {
	name := wire.InputStream(r.cfg.inputJob())
	in, err := r.server.JS.Stream(ctx, name)
	if err != nil {
		return fmt.Errorf("pipeline: %w", err)
	}
	r.server.In = &store.Input{Stream: in, Link: r.server.Link, Job: r.cfg.inputJob(), Pattern: r.cfg.inputPattern()}
	if d := r.worker.drain; d != nil {
		r.server.In.Mixed = d.Mixed
	}
	if r.server.Out, err = r.server.JS.Stream(ctx, wire.OutputStream(r.cfg.Job)); err != nil {
		return fmt.Errorf("pipeline: %w", err)
	}
	r.began = map[string]time.Time{name: in.CachedInfo().Created, wire.OutputStream(r.cfg.Job): r.server.Out.CachedInfo().Created}
	if r.server.Snaps, err = store.OpenSnapshots(ctx, r.server.JS, r.cfg.Job, r.cfg.Replicas); err != nil {
		return err
	}
	r.server.Snaps.Link = r.server.Link
	if r.members, err = openMembers(ctx, r.server.JS, r.cfg, r.self.worker, r.now); err != nil {
		return err
	}
	if r.worker.Carry > 0 {
		if err := store.MakeFeatures(ctx, r.server.JS, r.cfg.Job, r.server.Out); err != nil {
			return err
		}
	}
	if r.server.Auxiliary, err = store.OpenAuxiliary(ctx, r.server.JS, r.server.Link, r.cfg.Job, r.server.Snaps, r.worker.Carry > 0, r.counters.Spilled.Load, r.log); err != nil {
		return err
	}
	others := slices.Collect(maps.Values(r.server.Auxiliary.Known))
	if r.cfg.Shared.Job == "" {
		others = append(others, in.CachedInfo())
	}
	warnOfLoss(r.server.Out.CachedInfo(), others, r.log)
	if r.empty, err = wire.NoPredictions(r.self.meta); err != nil {
		return err
	}
	maxMessage := int(in.CachedInfo().Config.MaxMsgSize)
	if maxMessage <= 0 {
		maxMessage = r.limit + store.HeaderRoom
	}
	r.owners = &owner.Worker{
		Job: r.cfg.Job, Partitions: r.cfg.Partitions, Lease: r.cfg.Lease, Keep: r.keepTime(),
		Name: r.self.worker, Model: r.self.model, Empty: r.empty, Pull: r.conns.shareReaders(r.cfg.Partitions, maxMessage),
		Server:   r.server,
		Counters: r.counters, Log: r.log, Now: r.now,
		Lives: r.members.hasOthers, Reader: r.conns.readerOf, Connected: r.conns.allConnected,
		Safeguards: r.worker.guard.Safeguards,
	}
	r.owners.Common = owner.NewCommon(r.owners, cmp.Or(r.worker.apart, owner.ApartTime), r.conns.commonReader)
	return nil
}

// keepTime returns how long replaced objects are kept.
func (r *run) keepTime() time.Duration {
	if r.worker.keep == 0 {
		return owner.KeepReplaced
	}
	return max(0, r.worker.keep)
}

// closeRun frees the resources of open and clears the current values of the counters.
func (r *run) closeRun() {
	r.shown.running.CompareAndSwap(r, nil)
	if r.owners != nil {
		r.owners.Common.Close()
	}
	if r.self.readouts != nil {
		r.self.readouts.stopReading()
	}
	r.conns.closeAll()
	for _, s := range r.shards {
		if err := s.Close(); err != nil {
			r.log.Error("engine did not close", "err", err)
		}
	}
	r.counters.ClearNow()
}

// countInterruptions counts events after which the server may have changed: breaks of
// connections, recoveries of consumers.
func (r *run) countInterruptions() uint64 {
	return r.counters.Resets.Load() + r.conns.countBreaks()
}
