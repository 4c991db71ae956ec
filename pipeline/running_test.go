package pipeline_test

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/bridge"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// running is a stage at work.
type running struct {
	counters pipeline.Counters
	before   int // input messages in the snapshots that the run began from
	mu       sync.Mutex
	conns    []*nats.Conn
	cancel   context.CancelFunc
	done     chan error
}

func (b *rig) startStage(m *reservoir.Model, c pipeline.Config) *running {
	return b.startWith(m, c, pipelinetest.Generic)
}

func (b *rig) startWith(m *reservoir.Model, c pipeline.Config, engine pipeline.EngineFactory) *running {
	b.t.Helper()
	before := b.countRestored(c)
	r := b.launchStage(m, c, engine)
	r.before = before
	return r
}

// launchStage starts a stage and returns when it reads.
func (b *rig) launchStage(m *reservoir.Model, c pipeline.Config, engine pipeline.EngineFactory) *running {
	b.t.Helper()
	r := &running{done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	ready := make(chan struct{})
	s := &pipeline.Worker{
		Job: pipeline.Job{
			Config: c, Model: m, ModelName: "test-model", NewEngine: engine, Log: b.log,
			Dial: func(ctx context.Context, name string) (*nats.Conn, error) {
				nc, err := b.dialServer(ctx, name)
				r.mu.Lock()
				defer r.mu.Unlock()
				if err == nil {
					r.conns = append(r.conns, nc)
				}
				return nc, err
			},
		},
		Counters: &r.counters, Carry: b.carry,
		Ready: func() { close(ready) },
	}
	bridge.Trace(s, b.tracer)
	s.SetKeep(cmp.Or(b.keep, -1), b.now)
	s.SetPatience(b.apart, patience)
	go func() { r.done <- s.Run(ctx) }()
	b.t.Cleanup(cancel)
	select {
	case <-ready:
	case err := <-r.done:
		b.t.Fatalf("stage did not start: %v", err)
	case <-time.After(patience):
		b.t.Fatal("stage is not ready")
	}
	return r
}

// countRestored counts the input messages contained in a stage's snapshots.
func (b *rig) countRestored(c pipeline.Config) int {
	b.t.Helper()
	c = c.WithDefaults()
	out, err := b.js.Stream(context.Background(), wire.OutputStream(c.Job))
	if err != nil {
		return 0 // a new job
	}
	in, err := b.js.Stream(context.Background(), wire.InputStream(c.Job))
	if err != nil {
		return 0
	}
	n, first := 0, in.CachedInfo().State.FirstSeq
	snaps := map[string]uint64{}
	for p := range c.Partitions {
		if raw, err := out.GetLastMsgForSubject(context.Background(), wire.OutputSubject(c.Job, p)); err == nil {
			if r, err := wire.ParseRecord(raw.Header, raw.Subject, raw.Sequence); err == nil && r.SnapSeq > 0 {
				snaps[fmt.Sprint(p)] = r.SnapSeq
			}
		}
	}
	if len(snaps) == 0 {
		return 0 // reading the input one by one is slow
	}
	for seq := first; seq <= in.CachedInfo().State.LastSeq; seq++ {
		m, err := in.GetMsg(context.Background(), seq)
		if err != nil {
			continue
		}
		if seq <= snaps[strings.Split(m.Subject, ".")[2]] {
			n++
		}
	}
	return n
}

func (r *running) stopStage(t testing.TB) {
	t.Helper()
	r.cancel()
	if err := r.waitForEnd(t); err != nil {
		t.Fatalf("stage ended with %v", err)
	}
}

// crashStage ends a stage like a killed process: nothing more reaches the server, no last
// commit, no release.
func (r *running) crashStage(t testing.TB) {
	t.Helper()
	r.mu.Lock() // it may be opening one more connection
	for _, nc := range r.conns {
		nc.Close()
	}
	r.mu.Unlock()
	r.cancel()
	_ = r.waitForEnd(t) // with any error
}

func (r *running) waitForEnd(t testing.TB) error {
	t.Helper()
	select {
	case err := <-r.done:
		return err
	case <-time.After(patience):
		buf := make([]byte, 1<<20)
		t.Fatalf("stage does not end:\n%s", buf[:runtime.Stack(buf, true)])
		return nil
	}
}

// waitUntil waits for a condition on the stage's counters.
func (r *running) waitUntil(t testing.TB, what string, ok func(pipeline.Stats) bool) pipeline.Stats {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if s := r.counters.Stats(); ok(s) {
			return s
		}
		select {
		case err := <-r.done:
			t.Fatalf("waiting for %s, the stage ended: %v", what, err)
		default:
		}
	}
	t.Fatalf("no %s within %v: %+v", what, patience, r.counters.Stats())
	return pipeline.Stats{}
}

// settleMessages waits until n messages are processed.
func (b *rig) settleMessages(r *running, messages int) pipeline.Stats {
	b.t.Helper()
	return r.waitUntil(b.t, fmt.Sprintf("%d messages answered", messages), func(s pipeline.Stats) bool {
		return int(s.Messages+s.Duplicates+s.DeadLetters+s.Replayed)+r.before >= messages && s.Lag == 0
	})
}

// answerPackets runs a stage until it has processed the given number of messages, including
// those published here.
func (b *rig) answerPackets(m *reservoir.Model, c pipeline.Config, packets []pipelinetest.Packet, messages int) {
	b.t.Helper()
	r := b.startStage(m, c)
	b.publishPackets(packets)
	b.settleMessages(r, messages)
	r.stopStage(b.t)
}

// quickConfig is a job with leases and snapshots as short as tests are.
func quickConfig(job string, partitions int) pipeline.Config {
	return pipeline.Config{Job: job, Partitions: partitions, Lease: 600 * time.Millisecond, SnapshotMessages: 7, StopTimeout: 300 * time.Millisecond}
}
