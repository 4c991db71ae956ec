package demo

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/engines"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/producer"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

const (
	demoJob = "demo"
	// demoRows per message and demoBatch per engine call are small, so that streams are interleaved finely and the
	// display moves.
	demoRows  = 64
	demoBatch = 1024
)

// liveResult is the output of the stage, in the order of the evaluation.
type liveResult struct {
	predictions []codec.Prediction // Class -1: none came
	stats       pipeline.Stats
	seconds     float64 // from the first message published to the last prediction
	streams     int
}

// demoLive runs server, stage, replay and reader in this process until every
// prediction has come.
func demoLive(ctx context.Context, a *cli.App, o *demoOptions, src demoReplay, m *reservoir.Model, name string) (*liveResult, error) {
	dir, err := os.MkdirTemp(o.dir, "nats-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	log := a.Logger("warn", a.LogFormat())
	a.Say("4/5  starting a NATS server and the stage")
	server, err := natsserver.Start(ctx, natsserver.Options{Dir: dir, Port: natsserver.InProcess, Log: log})
	if err != nil {
		return nil, err
	}
	defer server.Close()

	l := &demoRun{app: a, server: server, log: log, src: src, collect: newCollector(src)}
	l.stage = pipeline.Worker{
		Job: pipeline.Job{
			Config: pipeline.Config{Job: demoJob, RowBudget: demoBatch, NonFinite: codec.Hold},
			Model:  m, ModelName: name, NewEngine: engines.New(a.Engine), Log: log,
			Dial: func(_ context.Context, name string) (*nats.Conn, error) { return server.Connect(name, log) },
		},
		NewPartitions: pipeline.EmbeddedPartitions, Counters: &l.counters,
	}
	if err := l.runDemo(ctx); err != nil {
		return nil, err
	}
	stats := l.counters.Stats()
	if want := len(src.ev.Predictions); stats.Predictions != uint64(want) {
		return nil, cli.Fail(cli.ExitIntegrity, fmt.Errorf("the stage made %d predictions, the evaluation %d", stats.Predictions, want), "")
	}
	return &liveResult{l.collect.got, stats, l.seconds, src.streams}, nil
}

// demoRun is the live part of a demo.
type demoRun struct {
	app      *cli.App
	server   *natsserver.Server
	log      *slog.Logger
	src      demoReplay
	collect  *collector
	stage    pipeline.Worker
	counters pipeline.Counters
	begin    time.Time
	seconds  float64 // until the last prediction
}

// runDemo returns when every prediction has come, or something failed, or
// ctx ended. By then every part has ended.
func (l *demoRun) runDemo(outer context.Context) error {
	nc, err := l.server.Connect("eusn-stream/demo/replay", l.log)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(outer)
	var wg sync.WaitGroup
	defer func() { cancel(nil); wg.Wait() }()

	ready := make(chan struct{})
	l.stage.Ready = func() { close(ready) }
	start := func(what string, f func(context.Context) error) {
		wg.Go(func() {
			if err := f(ctx); err != nil {
				cancel(fmt.Errorf("%s: %w", what, err))
			}
		})
	}
	start("stage", l.stage.Run)
	select {
	case <-ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	l.app.Say("5/5  %s", l.src.text)
	l.begin = time.Now()
	start("reading predictions", func(ctx context.Context) error {
		return consumer.Predictions(ctx, js, demoJob, 1, l.collect.take)
	})
	start("replay", func(ctx context.Context) error {
		_, err := producer.Publisher{
			Channels: l.stage.Model.Channels, RowsPerMessage: demoRows, Playing: l.src.streams, Job: demoJob, Log: l.log,
		}.Publish(ctx, nc, l.src)
		return err
	})
	return l.watch(ctx)
}

// watch shows the progress until all predictions have arrived.
func (l *demoRun) watch(ctx context.Context) error {
	line := l.app.LiveLine()
	defer line.Close()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	last, lastRows := l.begin, uint64(0)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.collect.complete:
			l.seconds = time.Since(l.begin).Seconds()
			line.Show(l.text(float64(l.counters.Stats().Rows)/l.seconds), true)
			return nil
		case now := <-tick.C:
			s := l.counters.Stats()
			if s.DeadLetters > 0 {
				return cli.Fail(cli.ExitIntegrity, fmt.Errorf("the stage could not use %d messages", s.DeadLetters), "")
			}
			rate := float64(s.Rows-lastRows) / now.Sub(last).Seconds()
			if line.Show(l.text(rate), false) {
				last, lastRows = now, s.Rows
			}
		}
	}
}

func (l *demoRun) text(rowsPerSecond float64) string {
	predicted, labeled, right := l.collect.score()
	text := fmt.Sprintf("     %7.0f samples/s   %d of %d predictions", rowsPerSecond, predicted, len(l.collect.got))
	if labeled > 0 {
		text += fmt.Sprintf("   correct so far %.3f", float64(right)/float64(labeled))
	}
	return text
}

// collector puts predictions in the order of the evaluation: the n-th prediction of a stream goes to the stream's
// n-th place in the evaluation.
type collector struct {
	src      demoReplay
	complete chan struct{}

	mu        sync.Mutex
	got       []codec.Prediction // Class -1: none came
	seen      map[string]int     // predictions of each stream so far
	predicted int
	labeled   int // predicted sequences with one label
	right     int
}

func newCollector(src demoReplay) *collector {
	c := &collector{src: src, complete: make(chan struct{}), seen: map[string]int{}, got: make([]codec.Prediction, len(src.ev.Predictions))}
	for k := range c.got {
		c.got[k].Class = -1
	}
	return c
}

// take receives a message of predictions.
func (c *collector) take(o consumer.Output) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range o.Predictions {
		want, known := c.src.want[p.Stream]
		n := c.seen[p.Stream]
		switch {
		case !known:
			return cli.Fail(cli.ExitIntegrity, fmt.Errorf("a prediction of stream %q, which the evaluation does not have", p.Stream), "")
		case n == len(want):
			return cli.Fail(cli.ExitIntegrity, fmt.Errorf("stream %q has more than the %d predictions of the evaluation", p.Stream, n), "")
		case int(p.Class) < 0 || int(p.Class) >= len(c.src.ev.Classes):
			return cli.Fail(cli.ExitIntegrity, fmt.Errorf("stream %q has a prediction of class %d of %d", p.Stream, p.Class, len(c.src.ev.Classes)), "")
		}
		c.seen[p.Stream]++
		c.got[want[n]] = p
		c.predicted++
		if label := c.src.ev.Predictions[want[n]].Label; label >= 0 {
			c.labeled++
			if int(p.Class) == label {
				c.right++
			}
		}
		if c.predicted == len(c.got) {
			close(c.complete)
		}
	}
	return nil
}

func (c *collector) score() (predicted, labeled, right int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.predicted, c.labeled, c.right
}
