package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
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
	// Fallback makes engines when one of NewEngine's is lost
	// (reservoir.ErrLost), a GPU that failed for instance, and when one of its
	// own is: it must come to an end some time, with engines that are not lost
	// or an error. Optional: without it, a loss ends the run.
	Fallback EngineFactory
	// Dial opens one more connection to the NATS server under a name. A run
	// needs a few: one for commits and one per 32 MiB of pulls. It closes
	// them all.
	Dial     func(name string) (*nats.Conn, error)
	Log      *slog.Logger // optional
	Counters *Counters    // optional: counted into, for the caller to read
	Ready    func()       // optional: called once when the worker reads its first share of the partitions

	unsafe string           // leaves a safety out, for tests that must see it fail
	clock  func() time.Time // what leases read; nil = time.Now
}

// What Stage.unsafe may say. Only a build with the tag chaos can set it.
const (
	unsafeNoFence = "nofence" // commits whatever others have committed
	unsafeNoDedup = "nodedup" // repeats and gaps of producers count as samples
	unsafeMsgID   = "msgid"   // relies on the server's duplicate window instead of the fence
)

// Run is the live stage: it creates or checks the job's NATS streams, joins
// the job's workers, and works on its share of the partitions until ctx ends.
// Then it finishes what is in hand, stores its states, gives its partitions up
// and returns nil. A partition that must not go on (data lost or changed, a
// state that does not come out as it was) is stopped with a line in the log;
// the others go on. Run returns an error when nothing of its share is left,
// when it cannot start, when an engine fails, and at its end for partitions
// it has stopped. All goroutines have ended by then.
//
// A lost engine takes states with it that nothing but the snapshots and the
// input has. With a Fallback, the worker then leaves the job as one that was
// killed would, and begins anew with engines of Fallback.
func (s *Stage) Run(ctx context.Context) error {
	if s.Fallback == nil {
		return s.attempt(ctx)
	}
	first := *s
	if s.Ready != nil {
		first.Ready = sync.OnceFunc(s.Ready)
	}
	for {
		err := first.attempt(ctx)
		if !errors.Is(err, reservoir.ErrLost) || ctx.Err() != nil {
			return err
		}
		if s.Log != nil {
			s.Log.Error("engine lost: its partitions are restored from their snapshots on another engine", "err", err)
		}
		first.NewEngine = s.Fallback
	}
}

// attempt is Run with the engines of NewEngine.
func (s *Stage) attempt(ctx context.Context) error {
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
	r.counters.running.Store(r)
	defer context.AfterFunc(ctx, func() { r.stopping.Store(true) })()
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
	worker   string // its name among the job's
	now      func() time.Time

	js       jetstream.JetStream // for commits
	link     *link               // of js
	in, out  jetstream.Stream
	began    map[string]time.Time // when these were created
	snaps    *snapshots
	members  *members
	empty    []byte // a message of no predictions
	engine   string // its name
	limit    int    // bytes of a message's body the server takes
	pull     int    // bytes a consumer may ask for at once
	shards   []*shard
	emitters []*emitter
	workers  context.Context // ends with the shards

	view     atomic.Pointer[view] // what Status sees
	stopping atomic.Bool
	connsMu  sync.Mutex // never held while something is waited for
	conns    []*connection

	mu            sync.Mutex
	readers       []jetstream.JetStream
	perConnection int // consumers of a reader
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
	if r.now = s.clock; r.now == nil {
		r.now = time.Now
	}
	r.worker = nuid.Next()
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
	c := watched(nc)
	r.connsMu.Lock()
	defer r.connsMu.Unlock()
	r.conns = append(r.conns, c)
	return nc, nil
}

// reader is the connection a partition's consumer uses: as many consumers
// share one as its limit of pending bytes allows.
func (r *run) reader(part int) (jetstream.JetStream, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := part / r.perConnection
	if r.readers[i] != nil {
		return r.readers[i], nil
	}
	nc, err := r.dial("input")
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("pipeline: JetStream: %w", err)
	}
	r.readers[i] = js
	return js, nil
}

// open connects, creates or checks what the job has on the server, and sets
// up shards and emitters.
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
	r.link = follow(nc)
	if err := r.patiently(ctx, func() error { return ensureStreams(ctx, r.js, r.cfg, r.log) }); err != nil {
		return err
	}
	if err := r.patiently(ctx, func() error { return r.openJob(ctx) }); err != nil {
		return err
	}
	for range r.cfg.Shards {
		s, err := newShard(r.cfg, r.Model, r.head, r.NewEngine, r.counters, r.log)
		if err != nil {
			return err
		}
		s.store = r.snaps
		r.engine = s.pool.engine.Name()
		s.noDedup = r.unsafe == unsafeNoDedup
		r.shards = append(r.shards, s)
		enc, err := codec.NewPredictionEncoder(r.meta)
		if err != nil {
			return fmt.Errorf("pipeline: %w", err)
		}
		r.emitters = append(r.emitters, &emitter{js: r.js, link: r.link, job: r.cfg.Job, encoder: enc, limit: r.limit, counters: r.counters})
	}
	return nil
}

// patiently asks again, a few times, what a loaded server did not answer in
// time. f must be able to go on where it was left.
func (r *run) patiently(ctx context.Context, f func() error) error {
	for attempt := 1; ; attempt++ {
		err := f()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil || attempt == jetStreamAttempts {
			return err
		}
		r.log.Warn("no answer in time while starting, asking again", "attempt", attempt, "err", err)
	}
}

// openJob finds the NATS streams and buckets of the job.
func (r *run) openJob(ctx context.Context) error {
	var err error
	if r.in, err = r.js.Stream(ctx, inputStream(r.cfg.Job)); err != nil {
		return fmt.Errorf("pipeline: %w", err)
	}
	if r.out, err = r.js.Stream(ctx, outputStream(r.cfg.Job)); err != nil {
		return fmt.Errorf("pipeline: %w", err)
	}
	r.began = map[string]time.Time{inputStream(r.cfg.Job): r.in.CachedInfo().Created, outputStream(r.cfg.Job): r.out.CachedInfo().Created}
	if r.snaps, err = openSnapshots(ctx, r.js, r.cfg); err != nil {
		return err
	}
	r.snaps.link = r.link
	if r.members, err = openMembers(ctx, r.js, r.cfg, r.worker, r.now); err != nil {
		return err
	}
	if r.empty, err = r.newEmpty(); err != nil {
		return err
	}
	maxMessage := int(r.in.CachedInfo().Config.MaxMsgSize)
	if maxMessage <= 0 {
		maxMessage = r.limit + headerRoom
	}
	r.pull, r.perConnection = pullBytes(r.cfg.Partitions, maxMessage)
	r.readers = make([]jetstream.JetStream, (r.cfg.Partitions+r.perConnection-1)/r.perConnection)
	return nil
}

// newEmpty encodes a message of no predictions.
func (r *run) newEmpty() ([]byte, error) {
	enc, err := codec.NewPredictionEncoder(r.meta)
	if err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	body, err := enc.Encode(nil)
	if err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	return body, nil
}

// work starts everything and returns when everything has ended, in the order
// of the data: consumers, shards, emitters.
func (r *run) work(ctx context.Context) error {
	var once sync.Once
	var failure error
	// An engine's failure ends the shards at once; partitions end in order
	// before the shards do.
	workers, end := context.WithCancel(context.WithoutCancel(ctx))
	quit := func() {
		r.stopping.Store(true)
		end()
	}
	defer quit()
	r.workers = workers
	fail := func(err error) { once.Do(func() { failure = err }); quit() }
	// Last commits may finish after ctx has ended, but not for ever.
	last, stopNow := context.WithCancel(context.WithoutCancel(ctx))
	defer stopNow()
	defer context.AfterFunc(ctx, func() {
		late := time.AfterFunc(r.cfg.StopTimeout, stopNow)
		context.AfterFunc(last, func() { late.Stop() })
	})()

	var wg sync.WaitGroup
	per := (r.cfg.Partitions + r.cfg.Shards - 1) / r.cfg.Shards
	for i, s := range r.shards {
		e := r.emitters[i]
		s.last = last
		e.cursor = make([]int, per)
		out, free := make(chan *batch, batchesPerShard), make(chan *batch, batchesPerShard)
		for range batchesPerShard {
			free <- newBatch(per)
		}
		wg.Go(guard(fail, func() error { return s.run(workers, out, free) }))
		wg.Go(guard(fail, func() error { e.run(last, out, free); return nil }))
	}
	err := r.manage(ctx, last)
	quit()
	wg.Wait()
	return errors.Join(failure, err)
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

// close frees what open took and clears the counters that speak of now.
func (r *run) close() {
	r.counters.running.CompareAndSwap(r, nil)
	for _, nc := range r.conns {
		nc.Close()
	}
	for _, s := range r.shards {
		if err := s.pool.engine.Close(); err != nil {
			r.log.Error("engine did not close", "err", err)
		}
	}
	c := r.counters
	for _, now := range []interface{ Store(int64) }{&c.streams, &c.slots, &c.away, &c.parked, &c.replaying, &c.owned, &c.stopped} {
		now.Store(0)
	}
}
