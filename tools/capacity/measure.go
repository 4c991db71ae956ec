package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/load"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

const (
	asServer = "EUSN_CAPACITY_SERVER"
	warm     = 4 * time.Second // of load, before the measurement
	patience = time.Minute
	restart  = 5 * time.Second        // from a kill to the next start
	glance   = 100 * time.Millisecond // interval of readings of the backlog
)

// measured is the resource use of a run.
type measured struct {
	Cores     float64 `json:"cores"`        // busy: of the stage and its server
	Publisher float64 `json:"publisher_s"`  // CPU time per message outside the stage: sending it and reading its prediction
	Memory    float64 `json:"memory_bytes"` // resident, at the end
	Disk      float64 `json:"disk_bytes"`   // the data directory after the load
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	Max       float64 `json:"max_ms"`
	Restart   float64 `json:"restart_after_kill_s,omitempty"` // until /readyz returns 200
	Backlog   []int   `json:"backlog,omitempty"`              // unanswered messages, every 100 ms from the kill on
	CaughtUp  float64 `json:"caught_up_s,omitempty"`          // from the kill until the backlog is back at its earlier level
	Load      float64 `json:"load_average"`
}

// command returns a command with priority over all other programs of the machine.
func command(ctx context.Context, program string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "chrt", append([]string{"-f", "1", program}, args...)...)
}

// serve runs a NATS server for the life of its process.
func serve(dir, port string) error {
	n, err := strconv.Atoi(port)
	if err == nil {
		_, err = natsserver.Start(context.Background(), natsserver.Options{Dir: dir, Port: n})
	}
	if err == nil {
		select {}
	}
	return err
}

// plant is the programs of a run.
type plant struct {
	o             options
	dir           string
	port, metrics string
	stage, server *exec.Cmd // server: nil if the stage embeds its server
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

func (p *plant) startServer(ctx context.Context) error {
	p.server = command(ctx, os.Args[0], filepath.Join(p.dir, "nats"), p.port)
	p.server.Env, p.server.Stderr = append(os.Environ(), asServer+"=1"), os.Stderr
	if err := p.server.Start(); err != nil {
		return err
	}
	return awaitCondition(ctx, "the server does not listen", func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+p.port)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

func (p *plant) startStage(ctx context.Context) error {
	args := []string{"run", "--model", p.o.model, "--metrics-listen", "127.0.0.1:" + p.metrics, "--quiet"}
	if p.server != nil {
		args = append(args, "--nats-url", p.url(), "--partitions", "8")
	} else {
		args = append(args, "--dir", filepath.Join(p.dir, "nats"), "--port", p.port)
	}
	p.stage = command(ctx, p.o.program, args...)
	p.stage.Stderr = os.Stderr
	return p.stage.Start()
}

func (p *plant) url() string { return "nats://127.0.0.1:" + p.port }

func (p *plant) ready(ctx context.Context) error {
	return awaitCondition(ctx, "the stage is not ready", func() bool {
		r, err := http.Get("http://127.0.0.1:" + p.metrics + "/readyz")
		if err == nil {
			r.Body.Close()
		}
		return err == nil && r.StatusCode == http.StatusOK
	})
}

func awaitCondition(ctx context.Context, what string, ok func() bool) error {
	for late := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if ctx.Err() != nil || time.Now().After(late) {
			return errors.Join(errors.New(what), ctx.Err())
		}
	}
	return nil
}

func endProcess(c *exec.Cmd) {
	if c != nil && c.Process != nil {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
}

// newPlant returns a plant before its start; close ends it.
func newPlant(o options) (p *plant, err error) {
	p = &plant{o: o}
	if p.port, err = freePort(); err != nil {
		return nil, err
	}
	if p.metrics, err = freePort(); err != nil {
		return nil, err
	}
	p.dir, err = os.MkdirTemp("", "eusn-capacity-*")
	return p, err
}

func (p *plant) close() {
	endProcess(p.stage)
	endProcess(p.server)
	os.RemoveAll(p.dir)
}

// start starts the stage, after the server if the stage will be killed, and waits until
// the stage is ready.
func (p *plant) start(ctx context.Context) error {
	if p.o.kill {
		if err := p.startServer(ctx); err != nil {
			return err
		}
	}
	if err := p.startStage(ctx); err != nil {
		return err
	}
	return p.ready(ctx)
}

// traffic is the messages of a plant's machines, and their predictions.
type traffic struct {
	js                 jetstream.JetStream
	generator          *load.Generator
	arrivals           *load.Arrivals
	machines, messages int
	every              time.Duration // between two messages
	sent, back         atomic.Int64  // messages, predictions
}

func (o options) newTraffic(nc *nats.Conn, machines int) (*traffic, error) {
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(1<<16))
	if err != nil {
		return nil, err
	}
	model, err := reservoir.Load(o.model)
	if err != nil {
		return nil, err
	}
	t := &traffic{js: js, machines: machines, every: time.Duration(float64(o.message) / float64(machines))}
	t.messages = int((warm + o.spend) / t.every)
	t.arrivals = load.NewArrivals(t.messages - machines)
	t.generator, err = load.New(js, load.Options{Channels: model.Channels, Rows: max(1, int(o.rate*o.message.Seconds())), Keys: machines, Patience: patience})
	return t, err
}

// start reads the predictions, starts to send a second later, and waits until both are
// warm. A failure cancels ctx.
func (t *traffic) start(ctx context.Context, cancel context.CancelCauseFunc, wg *sync.WaitGroup) {
	expect := func(key string, due time.Time) {
		if t.sent.Add(1) > int64(t.machines) { // a window needs two messages
			t.arrivals.Expect(key, due)
		}
	}
	wg.Go(func() {
		if err := consumer.Predictions(ctx, t.js, "eusn", 0, func(out consumer.Output) error {
			t.back.Add(int64(len(out.Predictions)))
			return t.arrivals.Record(out)
		}); err != nil && ctx.Err() == nil {
			cancel(err)
		}
	})
	time.Sleep(time.Second)
	wg.Go(func() {
		if err := t.generator.Pace(ctx, t.messages, t.every, expect); err != nil && ctx.Err() == nil {
			cancel(err)
		}
	})
	time.Sleep(warm)
}

// awaitAll waits for all predictions.
func (t *traffic) awaitAll(ctx context.Context) error {
	select {
	case <-t.arrivals.Complete():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(patience):
		return fmt.Errorf("%d predictions are missing", t.sent.Load()-t.back.Load())
	}
}

// measure runs the plant.
func (o options) measure(outer context.Context, machines int) (m measured, err error) {
	ctx, cancel := context.WithCancelCause(outer)
	defer cancel(nil)
	p, err := newPlant(o)
	if err != nil {
		return m, err
	}
	defer p.close()
	if err := p.start(ctx); err != nil {
		return m, err
	}
	nc, err := natsclient.Connect(ctx, natsclient.Options{URL: p.url(), Name: "capacity"})
	if err != nil {
		return m, err
	}
	defer nc.Close()
	t, err := o.newTraffic(nc, machines)
	if err != nil {
		return m, err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	t.start(ctx, cancel, &wg)
	if o.kill {
		err = p.measureFault(ctx, &m, func() int { return int(t.sent.Load()-t.back.Load()) - machines })
	} else {
		err = p.measureSteady(ctx, &m, func() int { return int(t.sent.Load()) })
	}
	if err != nil {
		return m, err
	}
	if err := t.awaitAll(ctx); err != nil {
		return m, err
	}
	ms := t.arrivals.Latencies(warm - o.message)
	m.P50, m.P99, m.Max = load.Quantile(ms, .5), load.Quantile(ms, .99), load.Quantile(ms, 1)
	if m.Disk, err = folderSize(filepath.Join(p.dir, "nats")); err != nil || o.kill {
		return m, err
	}
	endProcess(p.stage)
	begin := time.Now()
	if err := p.startStage(ctx); err != nil {
		return m, err
	}
	err = p.ready(ctx)
	m.Restart = time.Since(begin).Seconds()
	return m, err
}

// measureSteady measures a continuous load.
func (p *plant) measureSteady(ctx context.Context, m *measured, sent func() int) error {
	n, cpu, err := sent(), 0., error(nil)
	if cpu, err = p.cpuTime(); err != nil {
		return err
	}
	own, err := load.CPUTime()
	if err != nil {
		return err
	}
	begin := time.Now()
	select {
	case <-time.After(p.o.spend - 500*time.Millisecond):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	took := time.Since(begin).Seconds()
	after, err := p.cpuTime()
	if err != nil {
		return err
	}
	ownAfter, err := load.CPUTime()
	if err != nil {
		return err
	}
	m.Cores, m.Publisher = (after-cpu)/took, (ownAfter-own).Seconds()/float64(sent()-n)
	if m.Memory, err = resident(p.stage.Process.Pid); err != nil {
		return err
	}
	m.Load, err = loadAverage()
	return err
}

// measureFault kills and restarts the stage and records the backlog.
func (p *plant) measureFault(ctx context.Context, m *measured, waiting func() int) error {
	usual := 0
	for range 20 {
		time.Sleep(glance / 10)
		usual = max(usual, waiting())
	}
	endProcess(p.stage)
	begin := time.Now()
	again := make(chan error, 1)
	time.AfterFunc(restart, func() { again <- p.startStage(ctx) })
	tick := time.NewTicker(glance)
	defer tick.Stop()
	for time.Since(begin) < p.o.spend-2*time.Second {
		select {
		case <-tick.C:
		case err := <-again:
			if err != nil {
				return err
			}
			continue
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		m.Backlog = append(m.Backlog, waiting())
		if len(m.Backlog) > 10 && m.CaughtUp == 0 && m.Backlog[len(m.Backlog)-1] <= usual {
			m.CaughtUp = time.Since(begin).Seconds()
		}
	}
	var err error
	m.Load, err = loadAverage()
	return err
}
