package plan

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/load"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

const (
	patience   = 2 * time.Minute // without progress: the measurement hangs
	warmUp     = time.Second     // of a steady load, before the measurement
	maxStreams = 2000            // maximum in a measurement; a smaller plant uses its own number
	leastCPU   = 200 * time.Millisecond
	minRate    = 10 // minimum messages per second of a steady load
	onTime     = .9 // minimum fraction of a steady load that this machine must send
	steps      = 5  // of measure
	// A steady load of few messages is measured longer: until there are enough messages, or
	// this many times as long.
	enoughMessages = 2000
	longest        = 3
	// The cost of a byte of a snapshot was measured with 54.8 MB
	// (docs/results.md); here it is measured if there are enough bytes.
	snapshotByte   = 5e-9
	snapshotEnough = 8 << 20
)

// rig is a server and a stage in this process, as in "run", with a publisher and a reader of
// predictions connected by TCP, like machines and readers.
type rig struct {
	model  *reservoir.Model
	cfg    pipeline.Config
	engine pipeline.EngineFactory
	server *natsserver.Server
	log    *slog.Logger
	js     jetstream.JetStream
	nc     *nats.Conn
	load   *load.Generator
	stats  pipeline.Counters
}

// snapshotCost returns the CPU time per byte of a snapshot in seconds, for a number of bytes
// stored since begun, a reading of the CPU time.
func snapshotCost(bytes uint64, begun time.Duration) (float64, error) {
	if bytes < snapshotEnough {
		return snapshotByte, nil
	}
	ended, err := load.CPUTime()
	return (ended - begun).Seconds() / float64(bytes), err
}

// measure runs the stage with a model, with the plant's samples per message, in dir. It takes
// some seconds more than each measurement. The argument use limits the load to a fraction of
// the cores; cluster adds the measurement of a cluster of three servers. The function said gets
// the number of completed steps.
func measure(ctx context.Context, m *reservoir.Model, p plant, engine pipeline.EngineFactory, dir string, duration, latency time.Duration, use float64, cluster bool, log *slog.Logger, report func(done int)) (r measured, err error) {
	if _, err := load.CPUTime(); err != nil {
		return r, err
	}
	b := &rig{model: m, engine: engine, log: log, cfg: pipeline.Config{Job: "plan", Partitions: pipeline.EmbeddedPartitions, Latency: latency}.WithDefaults()}
	if b.server, err = natsserver.Start(ctx, natsserver.Options{Dir: filepath.Join(dir, "one"), Port: natsserver.RandomPort, Log: log}); err != nil {
		return r, err
	}
	defer b.server.Close()
	if b.nc, err = natsclient.Connect(ctx, natsclient.Options{URL: b.server.URL(), Name: "eusn-stream/plan", Log: log}); err != nil {
		return r, err
	}
	defer b.nc.Close()
	if b.js, err = jetstream.New(b.nc, jetstream.WithPublishAsyncMaxPending(512)); err != nil {
		return r, err
	}
	streams := max(1, min(p.Machines, maxStreams))
	if b.load, err = load.New(b.js, load.Options{Channels: m.Channels, Rows: p.Message, Keys: streams, Patience: patience}); err != nil {
		return r, err
	}
	r = measured{Cores: runtime.GOMAXPROCS(0), Write: 1, Payload: float64(b.load.MessageBytes())}
	r.StateBytes, r.States = statesOf(m)
	if r.Costs.Store, _, err = measureStoring(ctx, b.js, 1, p, m.Channels, duration); err != nil {
		return r, err
	}
	stored, begun := uint64(0), time.Duration(0)
	err = b.runStage(ctx, func(ctx context.Context, _ time.Duration) error {
		many, err := b.measureBurst(ctx, streams)
		if err != nil {
			return err
		}
		r.Burst = many.cpu.Seconds() / many.messages
		report(1)
		if err := b.measureIdle(ctx, duration, &r); err != nil {
			return err
		}
		report(2)
		r.Rate = evenRate(p, use, r.Cores, r.Burst)
		few, err := b.measureSteady(ctx, duration, &r)
		if err != nil {
			return err
		}
		store := r.Costs.Store
		r.Costs = divideCosts(many, few, store.cost(r.Payload))
		r.Costs.Store = store
		report(3)
		if err := b.measureStored(ctx, &r); err != nil {
			return err
		}
		stored = b.stats.Stats().SnapshotSize
		begun, err = load.CPUTime()
		return err
	})
	if err != nil {
		return r, err
	}
	// The stage has stopped cleanly: all states are stored.
	if r.Costs.Snapshot, err = snapshotCost(b.stats.Stats().SnapshotSize-stored, begun); err != nil {
		return r, err
	}
	// The second run restores the snapshot.
	err = b.runStage(ctx, func(_ context.Context, ready time.Duration) error {
		r.Restore = float64(streams*r.States) * r.StateBytes / ready.Seconds()
		return nil
	})
	report(4)
	if err == nil && cluster {
		err = measureCopying(ctx, p, m.Channels, dir, duration, &r)
	}
	report(steps)
	return r, err
}

// evenRate returns the messages per second for measuring the cost of a message. With few
// messages, batches are small and a message costs more: so the rate is a server's expected
// load, but high enough for a short measurement.
func evenRate(p plant, use float64, cores int, burst float64) float64 {
	return min(max(p.messages(), minRate), use*float64(cores)/burst)
}

// runStage calls f while the stage works, once every partition is read; ready is the time until
// then.
func (b *rig) runStage(outer context.Context, f func(ctx context.Context, ready time.Duration) error) error {
	ctx, cancel := context.WithCancelCause(outer)
	defer cancel(nil)
	stage := pipeline.Worker{
		Job: pipeline.Job{
			Config: b.cfg, Model: b.model, NewEngine: b.engine, Log: b.log,
			Dial: func(_ context.Context, name string) (*nats.Conn, error) { return b.server.Connect(name, b.log) },
		},
		Counters: &b.stats,
	}
	var wg sync.WaitGroup
	var failed error
	start := time.Now()
	wg.Go(func() {
		if failed = stage.Run(ctx); failed != nil {
			cancel(failed)
		}
	})
	err := b.waitFor(ctx, "the stage is not ready", func() bool { s := b.stats.Status(); return len(s.Unready()) == 0 })
	if err == nil {
		wg.Go(func() {
			if err := b.readPredictions(ctx); err != nil {
				cancel(err)
			}
		})
		err = f(ctx, time.Since(start))
	}
	cancel(nil)
	wg.Wait()
	return errors.Join(outer.Err(), failed, err)
}

// readPredictions reads the predictions until ctx ends.
func (b *rig) readPredictions(ctx context.Context) error {
	nc, err := natsclient.Connect(ctx, natsclient.Options{URL: b.server.URL(), Name: "eusn-stream/plan/reader", Log: b.log})
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	err = consumer.Predictions(ctx, js, b.cfg.Job, 0, func(consumer.Output) error { return nil })
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (b *rig) waitFor(ctx context.Context, text string, condition func() bool) error {
	for late := time.Now().Add(patience); !condition(); time.Sleep(2 * time.Millisecond) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Now().After(late) {
			return fmt.Errorf("%s after %v", text, patience)
		}
	}
	return nil
}

// waitForAnswers waits until the stage has answered a number of further messages.
func (b *rig) waitForAnswers(ctx context.Context, before pipeline.Stats, messages int) error {
	err := b.waitFor(ctx, "messages are not answered", func() bool { return b.stats.Stats().Messages >= before.Messages+uint64(messages) })
	if n := b.stats.Stats().DeadLetters; n > 0 {
		err = errors.Join(err, fmt.Errorf("the stage could not use %d messages of drawn samples", n))
	}
	return err
}

// measureBurst measures many simultaneous messages.
func (b *rig) measureBurst(ctx context.Context, streams int) (sample, error) {
	send := func(n int) (sample, error) {
		before := b.stats.Stats()
		cpu, err := measureCPU(func() error {
			if err := b.load.Burst(ctx, n); err != nil {
				return err
			}
			return b.waitForAnswers(ctx, before, n)
		})
		return since(before, b.stats.Stats(), cpu), err
	}
	// The first messages of a stream cost more, because its state is allocated.
	for n := max(64, 3*streams); ; n *= 4 {
		if _, err := send(n); err != nil {
			return sample{}, err
		}
		if got, err := send(n); err != nil || got.cpu > leastCPU {
			return got, err
		}
	}
}

// measureIdle measures the stage and its server without messages.
func (b *rig) measureIdle(ctx context.Context, duration time.Duration, r *measured) error {
	start := time.Now()
	cpu, err := measureCPU(func() error {
		select {
		case <-time.After(duration):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	r.Idle = cpu.Seconds() / time.Since(start).Seconds()
	return err
}

// measureSteady sends r.Rate messages per second for a time, longer for low rates, and returns
// the cost without the cost of an idle stage.
func (b *rig) measureSteady(ctx context.Context, duration time.Duration, r *measured) (sample, error) {
	interval := time.Duration(float64(time.Second) / r.Rate)
	pace := func(d time.Duration) (int, error) {
		n := max(10, int(d/interval))
		before := b.stats.Stats()
		if err := b.load.Pace(ctx, n, interval, func(string, time.Time) {}); err != nil {
			return n, err
		}
		return n, b.waitForAnswers(ctx, before, n)
	}
	if _, err := pace(warmUp); err != nil {
		return sample{}, err
	}
	if few := time.Duration(enoughMessages / r.Rate * float64(time.Second)); few > duration {
		duration = min(few, longest*duration)
	}
	before := b.stats.Stats()
	sent, start := 0, time.Now()
	cpu, err := measureCPU(func() (err error) {
		sent, err = pace(duration)
		return err
	})
	cpu -= time.Duration(r.Idle * float64(time.Since(start)))
	r.Message = max(0, cpu.Seconds()) / float64(sent)
	r.Late = time.Since(start) > time.Duration(float64(sent)*float64(interval)/onTime)+100*time.Millisecond
	return since(before, b.stats.Stats(), max(0, cpu)), err
}

func measureCPU(f func() error) (time.Duration, error) {
	before, err := load.CPUTime()
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := load.CPUTime()
	return after - before, err
}

// measureStored measures the disk space of a message and its predictions.
func (b *rig) measureStored(ctx context.Context, r *measured) error {
	messages := float64(0)
	for _, s := range []struct {
		name   string
		target *float64
	}{{"PLAN-IN", &r.In}, {"PLAN-OUT", &r.Out}} {
		stream, err := b.js.Stream(ctx, s.name)
		if err != nil {
			return fmt.Errorf("NATS stream %s: %w", s.name, err)
		}
		state := stream.CachedInfo().State
		if messages == 0 {
			messages = float64(state.Msgs)
		}
		*s.target = float64(state.Bytes) / messages
	}
	return nil
}
