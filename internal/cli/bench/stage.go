package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/engines"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/load"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// The stage's workload.
const (
	stageJob     = "bench"
	stageUnits   = 100
	stageRows    = 1000 // per message, and of a sequence: a prediction each
	stageKeys    = 512  // producers
	stageAlone   = 64   // streams of each engine that works without a stage
	stageClasses = 4

	stagePasses  = 3
	stageFirst   = 512 // messages of the pass that finds out how long the others should be
	stageMost    = 8192
	stagePace    = .5 // of the measured rate, when latency is measured
	stageWarmUp  = 500 * time.Millisecond
	stageForever = 2 * time.Minute // a stage that takes longer than this for one pass hangs
)

var stageChannels = []string{"a", "b", "c", "d", "e", "f"}

// stageRow is the result of the stage with a number of partitions.
type stageRow struct {
	Bench          string  `json:"bench"` // stage
	Engine         string  `json:"engine"`
	Recipe         string  `json:"recipe,omitempty"` // a bank's name; empty: one network
	Units          int     `json:"units"`
	Inputs         int     `json:"inputs"`
	Partitions     int     `json:"partitions"`
	Shards         int     `json:"shards"`
	RowsPerMessage int     `json:"rows_per_message"`
	Messages       int     `json:"messages"`
	RowsPerSecond  float64 `json:"rows_per_s"`
	BytesPerSecond float64 `json:"bytes_per_s"` // of payload
	EngineRows     float64 `json:"engine_rows_per_s"`
	EngineShare    float64 `json:"engine_share"`
	EngineTime     float64 `json:"engine_time_share"`
	Paced          float64 `json:"paced_rows_per_s"`
	Latencies      int     `json:"latencies"` // messages that were timed
	P50            float64 `json:"p50_ms"`
	P99            float64 `json:"p99_ms"`
}

// stageBench is a server with a job on it.
type stageBench struct {
	cfg     pipeline.Config
	model   *reservoir.Model
	factory pipeline.EngineFactory
	server  *natsserver.Server
	log     *slog.Logger
	nc      *nats.Conn
	js      jetstream.JetStream
	load    *load.Generator
	stats   pipeline.Counters
	profile string // file for the next pass; empty: none
	rows    int    // of a message
	keys    int    // producers
}

// benchStage measures the stage with the named bank, or with one network, and the given number of partitions: passes
// over a backlog, then latency at a steady pace.
func benchStage(ctx context.Context, a *cli.App, o *benchOptions, recipe string, partitions int) (row stageRow, err error) {
	dir, err := os.MkdirTemp(o.dir, "eusn-bench-*")
	if err != nil {
		return row, cli.Fail(cli.ExitFailure, err, "--dir with a writable folder")
	}
	defer os.RemoveAll(dir)
	p := a.Progress()
	defer p.Close()
	what := fmt.Sprintf("stage, %d partition(s), steps", partitions)
	if recipe != "" {
		what = fmt.Sprintf("stage, %s, %d partition(s), steps", recipe, partitions)
	}
	const steps = stagePasses + 3
	p.Report(0, steps, what)

	b := &stageBench{cfg: pipeline.Config{Job: stageJob, Partitions: partitions, RowBudget: o.batch}.WithDefaults(), factory: engines.New(a.Engine), rows: stageRows, keys: stageKeys}
	b.log = a.Logger("warn", a.LogFormat())
	if b.model, err = stageModel(recipe, stageRows); err != nil {
		return row, err
	}
	if err := b.openBench(ctx, dir); err != nil {
		return row, err
	}
	defer b.closeBench()
	alone, err := newEnginesAlone(b.model, b.factory)
	if err != nil {
		return row, err
	}
	defer alone.closeEngines()

	first, err := b.pass(ctx, stageFirst)
	if err != nil {
		return row, err
	}
	p.Report(1, steps, what)
	messages := min(stageMost, max(stageFirst, int(first.rows*o.time.Seconds()/stageRows)))
	var rows, shares, times, engine []float64
	before, err := alone.measure(o.time / 4)
	if err != nil {
		return row, err
	}
	for i := range stagePasses {
		if i == stagePasses-1 && o.profile != "" {
			b.profile = fmt.Sprintf("%s-%d.pprof", o.profile, partitions)
		}
		r, err := b.pass(ctx, messages)
		if err != nil {
			return row, err
		}
		after, err := alone.measure(o.time / 4)
		if err != nil {
			return row, err
		}
		beside := (before + after) / 2
		rows, shares, times, engine = append(rows, r.rows), append(shares, r.rows/beside), append(times, r.engine), append(engine, beside)
		before = after
		p.Report(int64(i+2), steps, what)
	}
	row = stageRow{
		Bench: "stage", Engine: alone.engines[0].Name(), Recipe: recipe, Units: b.model.Network.Spec.Units, Inputs: len(stageChannels), Partitions: partitions, Shards: b.cfg.Shards,
		RowsPerMessage: stageRows, Messages: messages, RowsPerSecond: median(rows), EngineRows: median(engine),
		EngineShare: median(shares), EngineTime: median(times),
	}
	row.BytesPerSecond = row.RowsPerSecond / stageRows * float64(b.load.MessageBytes())
	row.Paced = stagePace * row.RowsPerSecond
	late, err := b.latency(ctx, row.Paced, stageWarmUp+2*o.time)
	if err != nil {
		return row, err
	}
	row.Latencies = len(late)
	row.P50, row.P99 = load.Quantile(late, .5), load.Quantile(late, .99)
	return row, nil
}

func (b *stageBench) openBench(ctx context.Context, dir string) (err error) {
	if b.server, err = natsserver.Start(ctx, natsserver.Options{Dir: dir, Port: natsserver.InProcess, Log: b.log}); err != nil {
		return cli.Fail(cli.ExitFailure, err, "--dir with a writable folder")
	}
	if b.nc, err = b.server.Connect("eusn-stream/bench", b.log); err == nil {
		b.js, err = jetstream.New(b.nc, jetstream.WithPublishAsyncMaxPending(512))
	}
	if err == nil {
		b.load, err = load.New(b.js, load.Options{Channels: stageChannels, Rows: b.rows, Keys: b.keys, Patience: stageForever})
	}
	if err == nil { // the job's NATS streams must be there before anything is published
		err = b.runBench(ctx, func(context.Context) error { return nil })
	}
	if err != nil {
		b.closeBench()
	}
	return err
}

func (b *stageBench) closeBench() {
	if b.nc != nil {
		b.nc.Close()
	}
	b.server.Close()
}

// runBench runs f while the stage works, from its first assignment on.
func (b *stageBench) runBench(outer context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(outer)
	ready, done := make(chan struct{}), make(chan struct{})
	var once sync.Once
	stage := pipeline.Worker{
		Job: pipeline.Job{
			Config: b.cfg, Model: b.model, NewEngine: b.factory, Log: b.log,
			Dial: func(_ context.Context, name string) (*nats.Conn, error) { return b.server.Connect(name, b.log) },
		},
		Counters: &b.stats,
		Ready:    func() { once.Do(func() { close(ready) }) },
	}
	var failed error
	go func() {
		defer close(done)
		if failed = stage.Run(ctx); failed != nil {
			cancel(failed)
		}
	}()
	var err error
	select {
	case <-ready:
		err = f(ctx)
	case <-ctx.Done():
	}
	cancel(nil)
	<-done
	return errors.Join(outer.Err(), failed, err)
}

// passed is the result of a pass over a backlog.
type passed struct {
	rows   float64 // a second
	engine float64 // share of all cores' time spent in engine calls
}

// pass stores messages and then lets a stage work off the backlog. The clock runs from the first committed batch to
// the last.
func (b *stageBench) pass(ctx context.Context, messages int) (r passed, err error) {
	begin := b.stats.Stats()
	if err := b.load.Burst(ctx, messages); err != nil {
		return r, err
	}
	stop, err := b.startProfile()
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	want := begin.Rows + uint64(messages*b.rows)
	err = b.runBench(ctx, func(ctx context.Context) error {
		var first pipeline.Stats
		var at time.Time
		late := time.Now().Add(stageForever)
		for {
			s := b.stats.Stats()
			now := time.Now()
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case s.DeadLetters > 0:
				return cli.Fail(cli.ExitIntegrity, fmt.Errorf("the stage could not use %d messages", s.DeadLetters), "")
			case at.IsZero() && s.Rows > begin.Rows && s.Rows < want:
				first, at = s, now
			case s.Rows == want && at.IsZero():
				return errors.New("the stage was finished before it could be measured: use a longer --time")
			case s.Rows == want:
				wall := now.Sub(at).Seconds()
				r.rows = float64(s.Rows-first.Rows) / wall
				r.engine = (s.Engine - first.Engine).Seconds() / wall / float64(runtime.GOMAXPROCS(0))
				return nil
			case now.After(late):
				return fmt.Errorf("%d of %d rows after %v", s.Rows-begin.Rows, messages*b.rows, stageForever)
			}
			time.Sleep(500 * time.Microsecond)
		}
	})
	return r, err
}

// startProfile begins to write the profile asked for, if any, until stop.
func (b *stageBench) startProfile() (stop func() error, err error) {
	if b.profile == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(b.profile)
	if err != nil {
		return nil, cli.Fail(cli.ExitFailure, err, "--profile with a writable path")
	}
	b.profile = ""
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error { pprof.StopCPUProfile(); return f.Close() }, nil
}

// latency publishes at a steady pace and returns how long after the moment it
// was due each message's prediction could be read, in ms, ascending.
func (b *stageBench) latency(ctx context.Context, rowsPerSecond float64, d time.Duration) (late []float64, err error) {
	every := time.Duration(float64(b.rows) / rowsPerSecond * float64(time.Second))
	err = b.runBench(ctx, func(ctx context.Context) error {
		late, err = b.paced(ctx, every, d)
		return err
	})
	return late, err
}

// paced measures the latency of single messages in a running stage.
func (b *stageBench) paced(ctx context.Context, every, d time.Duration) ([]float64, error) {
	messages := max(1, int(d/every))
	got := load.NewArrivals(messages)
	reading, stop := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop(nil)
	wg.Go(func() {
		if err := consumer.Predictions(reading, b.js, stageJob, 0, got.Record); err != nil {
			stop(err)
		}
	})
	time.Sleep(stageWarmUp / 2) // until the reader listens
	if err := b.load.Pace(reading, messages, every, got.Expect); err != nil {
		return nil, err
	}
	select {
	case <-got.Complete():
		return got.Latencies(stageWarmUp), nil
	case <-reading.Done():
		return nil, context.Cause(reading)
	case <-time.After(stageForever):
		return nil, errors.New("predictions are missing in the output")
	}
}
