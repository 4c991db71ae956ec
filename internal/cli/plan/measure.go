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
	patience    = 2 * time.Minute // without any progress: it hangs
	warmUp      = time.Second     // of a steady load, before it is measured
	mostStreams = 2000            // that a measurement has; a plant of fewer machines has its own number
	leastCPU    = 200 * time.Millisecond
	leastRate   = 10 // messages a second of a steady load: as many as are sent at least, in a second
	onTime      = .9 // of a steady load that this machine must have kept to
	steps       = 5  // of measure
	// A steady load of few messages is measured for longer: until there were enough, or so
	// many times as long.
	enoughMessages = 2000
	longest        = 3
	// What a byte of a snapshot costs was measured with 54.8 MB (docs/measurements/protocol.md);
	// here it is where there are enough bytes.
	snapshotByte   = 5e-9
	snapshotEnough = 8 << 20
)

// rig is a server and a stage in this process, as "run" has them, and a publisher and a
// reader of the predictions that are connected by TCP, as machines and readers are.
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

// snapshotCost is the CPU time of a byte of a snapshot, in seconds, after so many bytes were
// stored since begun, a reading of the CPU time.
func snapshotCost(bytes uint64, begun time.Duration) (float64, error) {
	if bytes < snapshotEnough {
		return snapshotByte, nil
	}
	ended, err := load.CPUTime()
	return (ended - begun).Seconds() / float64(bytes), err
}

// measure runs the stage with a model, each message of so many samples, in dir. It takes
// some seconds more than each. use is the share of the cores that the load may take
// at most; cluster says whether a cluster of three servers is measured, too. said hears how
// far it is, of steps.
func measure(ctx context.Context, m *reservoir.Model, p plant, engine pipeline.EngineFactory, dir string, each, latency time.Duration, use float64, cluster bool, log *slog.Logger, said func(done int)) (r measured, err error) {
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
	streams := max(1, min(p.Machines, mostStreams))
	if b.load, err = load.New(b.js, load.Options{Channels: m.Channels, Rows: p.Message, Keys: streams, Patience: patience}); err != nil {
		return r, err
	}
	r = measured{Cores: runtime.GOMAXPROCS(0), Write: 1, Payload: float64(b.load.MessageBytes())}
	r.StateBytes, r.States = statesOf(m)
	if r.Costs.Store, _, err = storing(ctx, b.js, 1, p, m.Channels, each); err != nil {
		return r, err
	}
	stored, begun := uint64(0), time.Duration(0)
	err = b.run(ctx, func(ctx context.Context, _ time.Duration) error {
		many, err := b.burst(ctx, streams)
		if err != nil {
			return err
		}
		r.Burst = many.cpu.Seconds() / many.messages
		said(1)
		if err := b.idle(ctx, each, &r); err != nil {
			return err
		}
		said(2)
		r.Rate = evenRate(p, use, r.Cores, r.Burst)
		few, err := b.steady(ctx, each, &r)
		if err != nil {
			return err
		}
		store := r.Costs.Store
		r.Costs = costs(many, few, store.cost(r.Payload))
		r.Costs.Store = store
		said(3)
		if err := b.stored(ctx, &r); err != nil {
			return err
		}
		stored = b.stats.Stats().SnapshotSize
		begun, err = load.CPUTime()
		return err
	})
	if err != nil {
		return r, err
	}
	// The stage has ended orderly: it has stored all states.
	if r.Costs.Snapshot, err = snapshotCost(b.stats.Stats().SnapshotSize-stored, begun); err != nil {
		return r, err
	}
	// Again with what the snapshot has.
	err = b.run(ctx, func(_ context.Context, ready time.Duration) error {
		r.Restore = float64(streams*r.States) * r.StateBytes / ready.Seconds()
		return nil
	})
	said(4)
	if err == nil && cluster {
		err = copying(ctx, p, m.Channels, dir, each, &r)
	}
	said(steps)
	return r, err
}

// evenRate is how many messages a second are sent to measure what one costs. The fewer there
// are, the fewer come together in a batch, and the more each costs: so it is the load that a
// server will have, but not so few that the measurement waits for them.
func evenRate(p plant, use float64, cores int, burst float64) float64 {
	return min(max(p.messages(), leastRate), use*float64(cores)/burst)
}

// run does f while the stage works, from when every partition is read; ready is how long
// that took.
func (b *rig) run(outer context.Context, f func(ctx context.Context, ready time.Duration) error) error {
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
	begin := time.Now()
	wg.Go(func() {
		if failed = stage.Run(ctx); failed != nil {
			cancel(failed)
		}
	})
	err := b.await(ctx, "the stage is not ready", func() bool { s := b.stats.Status(); return len(s.Unready()) == 0 })
	if err == nil {
		wg.Go(func() {
			if err := b.read(ctx); err != nil {
				cancel(err)
			}
		})
		err = f(ctx, time.Since(begin))
	}
	cancel(nil)
	wg.Wait()
	return errors.Join(outer.Err(), failed, err)
}

// read takes the predictions until ctx ends.
func (b *rig) read(ctx context.Context) error {
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

func (b *rig) await(ctx context.Context, what string, done func() bool) error {
	for late := time.Now().Add(patience); !done(); time.Sleep(2 * time.Millisecond) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Now().After(late) {
			return fmt.Errorf("plan: %s after %v", what, patience)
		}
	}
	return nil
}

// answered waits until the stage has answered so many messages more than before.
func (b *rig) answered(ctx context.Context, before pipeline.Stats, messages int) error {
	err := b.await(ctx, "messages are not answered", func() bool { return b.stats.Stats().Messages >= before.Messages+uint64(messages) })
	if n := b.stats.Stats().DeadLetters; n > 0 {
		err = errors.Join(err, fmt.Errorf("plan: the stage could not use %d messages of drawn samples", n))
	}
	return err
}

// burst measures many messages that come at once.
func (b *rig) burst(ctx context.Context, streams int) (sample, error) {
	send := func(n int) (sample, error) {
		before := b.stats.Stats()
		cpu, err := spent(func() error {
			if err := b.load.Burst(ctx, n); err != nil {
				return err
			}
			return b.answered(ctx, before, n)
		})
		return since(before, b.stats.Stats(), cpu), err
	}
	// The first messages of a stream cost more: it has no state yet, and gets memory for it.
	for n := max(64, 3*streams); ; n *= 4 {
		if _, err := send(n); err != nil {
			return sample{}, err
		}
		if got, err := send(n); err != nil || got.cpu > leastCPU {
			return got, err
		}
	}
}

// idle measures what the stage and its server use without any message.
func (b *rig) idle(ctx context.Context, each time.Duration, r *measured) error {
	begin := time.Now()
	cpu, err := spent(func() error {
		select {
		case <-time.After(each):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	r.Idle = cpu.Seconds() / time.Since(begin).Seconds()
	return err
}

// steady sends r.Rate messages a second for a time, longer where few come, and says what
// one costs, without what an idle stage costs.
func (b *rig) steady(ctx context.Context, each time.Duration, r *measured) (sample, error) {
	every := time.Duration(float64(time.Second) / r.Rate)
	pace := func(d time.Duration) (int, error) {
		n := max(10, int(d/every))
		before := b.stats.Stats()
		if err := b.load.Pace(ctx, n, every, func(string, time.Time) {}); err != nil {
			return n, err
		}
		return n, b.answered(ctx, before, n)
	}
	if _, err := pace(warmUp); err != nil {
		return sample{}, err
	}
	if few := time.Duration(enoughMessages / r.Rate * float64(time.Second)); few > each {
		each = min(few, longest*each)
	}
	before := b.stats.Stats()
	sent, begin := 0, time.Now()
	cpu, err := spent(func() (err error) {
		sent, err = pace(each)
		return err
	})
	cpu -= time.Duration(r.Idle * float64(time.Since(begin)))
	r.Message = max(0, cpu.Seconds()) / float64(sent)
	r.Late = time.Since(begin) > time.Duration(float64(sent)*float64(every)/onTime)+100*time.Millisecond
	return since(before, b.stats.Stats(), max(0, cpu)), err
}

func spent(f func() error) (time.Duration, error) {
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

// stored is what a message and its predictions take on the disk.
func (b *rig) stored(ctx context.Context, r *measured) error {
	messages := float64(0)
	for _, s := range []struct {
		name string
		to   *float64
	}{{"PLAN-IN", &r.In}, {"PLAN-OUT", &r.Out}} {
		stream, err := b.js.Stream(ctx, s.name)
		if err != nil {
			return fmt.Errorf("plan: NATS stream %s: %w", s.name, err)
		}
		state := stream.CachedInfo().State
		if messages == 0 {
			messages = float64(state.Msgs)
		}
		*s.to = float64(state.Bytes) / messages
	}
	return nil
}
