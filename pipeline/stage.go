package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Stage is everything a run needs. Fields without "optional" are required.
type Stage struct {
	Config    Config
	Model     *reservoir.Model
	ModelName string        // optional: shown in predictions
	NewEngine EngineFactory // called from the shard that will own the engine
	// Dial opens one more connection to the NATS server under a name. A run
	// needs a few: one for commits and one per 48 MiB of pulls. It closes
	// them all.
	Dial     func(name string) (*nats.Conn, error)
	Log      *slog.Logger // optional
	Counters *Counters    // optional: counted into, for the caller to read
	Ready    func()       // optional: called once when all partitions are being read
}

// Run is the live stage: it creates or checks the job's NATS streams, rebuilds
// states and works until ctx ends, then finishes the batch in hand and returns
// nil. It returns an error when the stage cannot start or must not go on: a
// configuration that does not fit what is there, a second stage on the same
// job, no state rows left, data lost by the server. All goroutines have ended
// by then.
func (s *Stage) Run(ctx context.Context) error {
	r, err := s.prepare()
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.open(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // stopped while starting
		}
		return err
	}
	return r.work(ctx)
}

// run is one Stage.Run.
type run struct {
	*Stage
	cfg      Config
	head     *readout.Linear
	meta     codec.PredictionMeta
	log      *slog.Logger
	counters *Counters

	conns      []*nats.Conn
	js         jetstream.JetStream // for commits
	limit      int                 // bytes of a message's body the server takes
	maxMessage int
	shards     []*shard
	emitters   []*emitter
	partitions []*partition // by id
}

func (s *Stage) prepare() (*run, error) {
	if s.Model == nil || s.NewEngine == nil || s.Dial == nil {
		return nil, errors.New("pipeline: stage without model, engine factory or connection")
	}
	if err := errors.Join(s.Config.Validate(), s.Model.Validate()); err != nil {
		return nil, err
	}
	r := &run{Stage: s, cfg: s.Config.WithDefaults(), log: s.Log, counters: s.Counters}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if r.counters == nil {
		r.counters = new(Counters)
	}
	var err error
	if r.head, err = pickHead(s.Model, r.cfg.Head); err != nil {
		return nil, err
	}
	sum, err := s.Model.Fingerprint()
	if err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	r.meta = codec.PredictionMeta{Model: s.ModelName, SHA256: sum, Head: r.head.Name, Labels: r.head.Classes, Columns: r.head.Columns()}
	if s.Model.Policy.Kind == reservoir.Endless {
		r.log.Warn("endless sequences: a state that never forgets drifts; use a model with gamma*eps large enough for its rate")
	}
	return r, nil
}

func (r *run) dial(what string) (*nats.Conn, error) {
	nc, err := r.Dial("eusn-stream/" + r.cfg.Job + "/" + what)
	if err != nil {
		return nil, err
	}
	r.conns = append(r.conns, nc)
	return nc, nil
}

// open connects, creates or checks the NATS streams, and sets up shards,
// emitters and every partition's position.
func (r *run) open(ctx context.Context) error {
	nc, err := r.dial("commit")
	if err != nil {
		return err
	}
	if r.limit = int(nc.MaxPayload()) - headerRoom; r.limit < r.cfg.MaxMessage+deadLetterRoom-headerRoom {
		return fmt.Errorf("pipeline: the server takes messages of %d bytes, max message %d needs %d: lower it, or raise the server's max_payload", nc.MaxPayload(), r.cfg.MaxMessage, r.cfg.MaxMessage+deadLetterRoom)
	}
	if err := awaitJetStream(ctx, nc); err != nil {
		return err
	}
	r.js, err = jetstream.New(nc, jetstream.WithPublishAsyncTimeout(commitTimeout), jetstream.WithPublishAsyncMaxPending(2*r.cfg.Partitions))
	if err != nil {
		return fmt.Errorf("pipeline: JetStream: %w", err)
	}
	if err := ensureStreams(ctx, r.js, r.cfg, r.log); err != nil {
		return err
	}
	for range r.cfg.Shards {
		s, err := newShard(r.cfg, r.Model, r.head, r.NewEngine, r.counters, r.log)
		if err != nil {
			return err
		}
		r.shards = append(r.shards, s)
		enc, err := codec.NewPredictionEncoder(r.meta)
		if err != nil {
			return fmt.Errorf("pipeline: %w", err)
		}
		r.emitters = append(r.emitters, &emitter{js: r.js, job: r.cfg.Job, encoder: enc, limit: r.limit, counters: r.counters})
	}
	return r.openPartitions(ctx)
}

// openPartitions reads each partition's position and decides whether its
// states can be rebuilt.
func (r *run) openPartitions(ctx context.Context) error {
	in, err := r.js.Stream(ctx, inputStream(r.cfg.Job))
	if err != nil {
		return fmt.Errorf("pipeline: %w", err)
	}
	out, err := r.js.Stream(ctx, outputStream(r.cfg.Job))
	if err != nil {
		return fmt.Errorf("pipeline: %w", err)
	}
	info := in.CachedInfo()
	r.maxMessage = int(info.Config.MaxMsgSize)
	if r.maxMessage <= 0 {
		r.maxMessage = r.limit + headerRoom
	}
	worker := nuid.Next()
	for id := range r.cfg.Partitions {
		e := r.emitters[id%r.cfg.Shards]
		c := &committer{
			js: r.js, stream: out, job: r.cfg.Job, part: id, worker: worker, log: r.log,
			created: info.Created.UTC().Format(time.RFC3339Nano), retries: func() { r.counters.retries.Add(1) },
		}
		if err := c.load(ctx); err != nil {
			return err
		}
		p := newPartition(id, len(e.committers))
		if err := r.resume(p, c.position, info.State); err != nil {
			return err
		}
		e.committers = append(e.committers, c)
		r.partitions = append(r.partitions, p)
	}
	return nil
}

// resume decides where a partition goes on from its position. The input can
// rebuild states only if it still has its first message.
func (r *run) resume(p *partition, pos position, in jetstream.StreamState) error {
	if in.LastSeq < pos.inSeq {
		return fmt.Errorf("pipeline: %s ends at message %d, but %s answers message %d: the input lost its tail; restore its store, or start a new job",
			inputStream(r.cfg.Job), in.LastSeq, outputSubject(r.cfg.Job, p.id), pos.inSeq)
	}
	whole := in.FirstSeq <= 1
	switch {
	case whole:
		p.skip = pos.ahead
		if p.replayTo = pos.inSeq; pos.inSeq > 0 {
			r.counters.replaying.Add(1)
		}
	default:
		// From empty states the next message may have other predictions than
		// those already out, so none is skipped: better twice than never.
		p.lossy = true
		p.done = pos.inSeq
		if pos.inSeq > 0 {
			r.log.Error("input no longer reaches back to its first message: states begin EMPTY, predictions of sequences that may lack samples are flagged as gaps",
				"partition", p.id, "first", in.FirstSeq, "answered", pos.inSeq)
		}
	}
	return nil
}

// work starts everything and returns when everything has ended, in the order
// of the data: consumers, shards, emitters.
func (r *run) work(outer context.Context) error {
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	var once sync.Once
	var failure error
	fail := func(err error) { once.Do(func() { failure = err }); cancel() }
	// Commits may finish after ctx has ended, but not for ever.
	last, stopNow := context.WithCancel(context.WithoutCancel(outer))
	defer stopNow()

	var wg sync.WaitGroup
	for i, s := range r.shards {
		e := r.emitters[i]
		e.cursor = make([]int, len(e.committers))
		out, free := make(chan *batch, batchesPerShard), make(chan *batch, batchesPerShard)
		for range batchesPerShard {
			free <- newBatch(len(e.committers))
		}
		wg.Go(guard(fail, func() error { return s.run(ctx, out, free) }))
		wg.Go(guard(fail, func() error { e.run(last, out, free, fail); return nil }))
	}
	consumers, err := r.startConsumers(ctx, fail)
	switch {
	case ctx.Err() != nil: // stopped, or failed with a reason of its own
	case err != nil:
		fail(err)
	default:
		r.log.Info("stage is reading", "job", r.cfg.Job, "partitions", r.cfg.Partitions, "shards", r.cfg.Shards, "model", r.ModelName, "engine", r.shards[0].pool.engine.Name())
		if r.Ready != nil {
			r.Ready()
		}
	}
	<-ctx.Done()
	defer time.AfterFunc(r.cfg.StopTimeout, stopNow).Stop()
	stopConsumers(consumers)
	wg.Wait()
	return failure
}

// guard turns a panic of a goroutine of ours into an error that stops the
// stage in order.
func guard(fail func(error), f func() error) func() {
	return func() {
		defer func() {
			if p := recover(); p != nil {
				fail(fmt.Errorf("pipeline: BUG: %v\n%s", p, debug.Stack()))
			}
		}()
		if err := f(); err != nil {
			fail(err)
		}
	}
}

// startConsumers starts one ordered consumer per partition, spread over as
// many connections as their pulls need.
func (r *run) startConsumers(ctx context.Context, fail func(error)) ([]jetstream.ConsumeContext, error) {
	pull, perConnection := pullBytes(len(r.partitions), r.maxMessage)
	var js jetstream.JetStream
	var all []jetstream.ConsumeContext
	for i, p := range r.partitions {
		if i%perConnection == 0 {
			nc, err := r.dial("input")
			if err != nil {
				return all, err
			}
			if js, err = jetstream.New(nc); err != nil {
				return all, fmt.Errorf("pipeline: JetStream: %w", err)
			}
		}
		cc, err := receive(ctx, js, r.cfg.Job, p, p.done+1, pull, r.shards[p.id%r.cfg.Shards], fail)
		if err != nil {
			return all, err
		}
		all = append(all, cc)
	}
	return all, nil
}

// close frees what open took and clears the counters that speak of now.
func (r *run) close() {
	for _, nc := range r.conns {
		nc.Close()
	}
	for _, s := range r.shards {
		if err := s.pool.engine.Close(); err != nil {
			r.log.Error("engine did not close", "err", err)
		}
	}
	c := r.counters
	for _, now := range []interface{ Store(int64) }{&c.pending, &c.waiting, &c.streams, &c.slots, &c.replaying} {
		now.Store(0)
	}
}
