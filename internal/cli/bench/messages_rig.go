package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/load"
)

const (
	messageWindow = 512 // messages that a publisher has under way, ours and plain JetStream's
	plainStream   = "PLAIN"
	plainPending  = 2 * time.Millisecond // between looks at a counter
)

// plain is JetStream without a stage, on the stage's server: the same bytes and headers into a NATS stream with file
// storage, and one ordered consumer.
type plain struct {
	nc   *nats.Conn // the reader's
	js   jetstream.JetStream
	load *load.Generator
	came atomic.Int64
	told atomic.Pointer[func(m jetstream.Msg)] // nil: only counted
	read jetstream.ConsumeContext
}

// openPlain opens plain JetStream next to a stage.
func (b *stageBench) openPlain(ctx context.Context) (p *plain, err error) {
	p = &plain{}
	if p.nc, err = b.server.Connect("eusn-stream/bench/plain", b.log); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.closePlain()
		}
	}()
	if p.js, err = jetstream.New(p.nc); err != nil {
		return nil, err
	}
	if _, err = p.js.CreateStream(ctx, jetstream.StreamConfig{Name: plainStream, Subjects: []string{"plain.*"}, Storage: jetstream.FileStorage}); err != nil {
		return nil, err
	}
	// The publisher has a connection of its own, like the stage's publisher.
	if p.load, err = load.New(b.js, load.Options{Channels: stageChannels, Rows: b.rows, Keys: b.keys, Subject: "plain", Patience: stageForever}); err != nil {
		return nil, err
	}
	c, err := p.js.OrderedConsumer(ctx, plainStream, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverNewPolicy})
	if err != nil {
		return nil, err
	}
	p.read, err = c.Consume(func(m jetstream.Msg) {
		if told := p.told.Load(); told != nil {
			(*told)(m)
		}
		p.came.Add(1)
	})
	return p, err
}

func (p *plain) closePlain() {
	if p.read != nil {
		p.read.Stop()
	}
	p.nc.Close()
}

// spent is the cost of a number of messages.
type spent struct {
	cpu, wall time.Duration
	messages  int
}

// each is microseconds of CPU time a message.
func (s spent) each() float64 {
	return float64(s.cpu) / float64(time.Microsecond) / float64(s.messages)
}

// perSecond is messages a second, by the clock.
func (s spent) perSecond() float64 { return float64(s.messages) / s.wall.Seconds() }

// timed runs f, which handles the given number of messages, on a swept heap.
func timed(messages int, f func() error) (spent, error) {
	runtime.GC()
	before, err := load.CPUTime()
	if err != nil {
		return spent{}, err
	}
	begin := time.Now()
	if err := f(); err != nil {
		return spent{}, err
	}
	wall := time.Since(begin)
	after, err := load.CPUTime()
	return spent{cpu: after - before, wall: wall, messages: messages}, err
}

// await polls done until it returns true.
func await(ctx context.Context, done func() bool) error {
	for late := time.Now().Add(stageForever); !done(); time.Sleep(plainPending) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Now().After(late) {
			return errors.New("messages are missing")
		}
	}
	return nil
}

// send publishes messages to plain JetStream and waits for its consumer.
func (p *plain) send(ctx context.Context, messages int) (spent, error) {
	want := p.came.Load() + int64(messages)
	return timed(messages, func() error {
		if err := p.load.Burst(ctx, messages); err != nil {
			return err
		}
		return await(ctx, func() bool { return p.came.Load() >= want })
	})
}

// send publishes messages to the running stage, and waits until the stage has committed their predictions. commits is
// the number of commits.
func (b *stageBench) send(ctx context.Context, messages int) (s spent, commits float64, err error) {
	before := b.stats.Stats()
	s, err = timed(messages, func() error {
		if err := b.load.Burst(ctx, messages); err != nil {
			return err
		}
		return await(ctx, func() bool { return b.stats.Stats().Messages >= before.Messages+uint64(messages) })
	})
	after := b.stats.Stats()
	if after.DeadLetters > 0 {
		err = errors.Join(err, cli.Fail(cli.ExitIntegrity, fmt.Errorf("the stage could not use %d messages", after.DeadLetters), ""))
	}
	return s, float64(after.Commits - before.Commits), err
}

// paced publishes to plain JetStream at a steady pace and returns the delays from the due time of each message to its
// consumer, in ms, ascending.
func (p *plain) paced(ctx context.Context, every, d time.Duration) ([]float64, error) {
	messages := max(1, int(d/every))
	got := load.NewArrivals(messages)
	told := func(m jetstream.Msg) {
		_ = got.Record(consumer.Output{Predictions: keyOf(m)}) // an unexpected message is not the benchmark's
	}
	p.told.Store(&told)
	defer p.told.Store(nil)
	if err := p.load.Pace(ctx, messages, every, got.Expect); err != nil {
		return nil, err
	}
	select {
	case <-got.Complete():
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(stageForever):
		return nil, errors.New("messages are missing")
	}
	return got.Latencies(min(stageWarmUp, d/4)), nil
}

// drain stores messages and lets a stage work off the backlog: from its start, before the first claim of a partition,
// to its last commit.
func (b *stageBench) drain(ctx context.Context, messages int) (s spent, err error) {
	if err := b.load.Burst(ctx, messages); err != nil {
		return s, err
	}
	want := b.stats.Stats().Messages + uint64(messages)
	runtime.GC()
	before, err := load.CPUTime()
	if err != nil {
		return s, err
	}
	begin := time.Now()
	err = b.runBench(ctx, func(ctx context.Context) error {
		if err := await(ctx, func() bool { return b.stats.Stats().Messages >= want }); err != nil {
			return err
		}
		after, err := load.CPUTime()
		s = spent{cpu: after - before, wall: time.Since(begin), messages: messages}
		return err
	})
	return s, err
}
