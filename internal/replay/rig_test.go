package replay

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// rig is a real server with a connection for the test.
type rig struct {
	t   testing.TB
	srv *natsserver.Server
	js  jetstream.JetStream
	log *slog.Logger

	subject func(key string) string // of messages; nil = sensors.<key>
}

func newRig(t testing.TB) *rig {
	t.Helper()
	srv := pipelinetest.Server(t, natsserver.Options{Dir: t.TempDir()})
	t.Cleanup(srv.Close)
	_, js := pipelinetest.Connect(t, srv)
	return &rig{t: t, srv: srv, js: js, log: pipelinetest.Log(t)}
}

func (b *rig) job(m *reservoir.Model, c pipeline.Config) *pipeline.Job {
	return &pipeline.Job{
		Config: c, Model: m, ModelName: "test-model", NewEngine: pipelinetest.Generic, Log: b.log,
		Dial: func(_ context.Context, name string) (*nats.Conn, error) { return b.srv.Connect(name, b.log) },
	}
}

// running is a worker at work.
type running struct {
	t        testing.TB
	counters pipeline.Counters
	stop     func()
}

// start starts a worker and returns when the worker reads.
func (b *rig) start(m *reservoir.Model, c pipeline.Config) *running {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b.t.Cleanup(cancel)
	r := &running{t: b.t}
	ready, done := make(chan struct{}), make(chan error, 1)
	w := &pipeline.Worker{Job: *b.job(m, c), Counters: &r.counters, Ready: func() { close(ready) }}
	go func() { done <- w.Run(ctx) }()
	r.stop = func() {
		b.t.Helper()
		cancel()
		if err := <-done; err != nil {
			b.t.Fatalf("the worker ended with %v", err)
		}
	}
	select {
	case <-ready:
	case err := <-done:
		b.t.Fatalf("the worker did not start: %v", err)
	}
	return r
}

func (r *running) until(what string, ok func(pipeline.Stats) bool) {
	r.t.Helper()
	pipelinetest.Until(r.t, what, func() bool { return ok(r.counters.Stats()) })
}

// settle waits until a worker of a new job has answered a number of messages.
func (b *rig) settle(r *running, messages int) {
	b.t.Helper()
	r.until(fmt.Sprintf("%d messages answered", messages), func(s pipeline.Stats) bool {
		return int(s.Messages+s.Duplicates+s.DeadLetters) >= messages && s.Lag == 0
	})
}

// answer runs a worker until all packets are answered.
func (b *rig) answer(m *reservoir.Model, c pipeline.Config, packets []pipelinetest.Packet) {
	b.t.Helper()
	r := b.start(m, c)
	b.publish(packets)
	b.settle(r, len(packets))
	r.stop()
}

func (b *rig) resize(m *reservoir.Model, c pipeline.Config, to int) {
	b.t.Helper()
	if r, err := operate.Resize(b.t.Context(), b.job(m, c), operate.ResizeOptions{To: to}); err != nil || r.Partitions != to || r.Step != "" {
		b.t.Fatalf("the job is %+v, want %d partitions: %v", r, to, err)
	}
}

// publish stores packets and waits for each acknowledgement.
func (b *rig) publish(packets []pipelinetest.Packet) {
	b.t.Helper()
	for _, p := range packets {
		subject := "sensors." + p.Key
		if b.subject != nil {
			subject = b.subject(p.Key)
		}
		msg := &nats.Msg{Subject: subject, Header: p.Headers(), Data: p.Payload(b.t)}
		if _, err := b.js.PublishMsg(context.Background(), msg); err != nil {
			b.t.Fatal(err)
		}
	}
}

// meanwhile publishes all packets, in parallel with f.
func (b *rig) meanwhile(packets []pipelinetest.Packet, f func()) {
	b.t.Helper()
	var beside sync.WaitGroup
	beside.Go(func() {
		for _, p := range packets {
			b.publish([]pipelinetest.Packet{p})
			time.Sleep(200 * time.Microsecond)
		}
	})
	defer beside.Wait()
	f()
}

// predictions reads the whole output of a job, per stream in order.
func (b *rig) predictions(job string) map[string][]codec.Prediction {
	b.t.Helper()
	all := map[string][]codec.Prediction{}
	err := consumer.Read(b.t.Context(), b.js, job, consumer.Span{From: 1, Stored: true}, func(o consumer.Output) error {
		for _, p := range o.Predictions {
			all[p.Stream] = append(all[p.Stream], p)
		}
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return all
}

// await waits until a job has made n predictions.
func (b *rig) await(job string, n int) (got map[string][]codec.Prediction) {
	b.t.Helper()
	pipelinetest.Until(b.t, fmt.Sprintf("%d predictions", n), func() bool {
		got = b.predictions(job)
		return pipelinetest.Count(got) >= n
	})
	return got
}

// digests returns the digests of the final states of a stopped job.
func (b *rig) digests(job string, partitions int) (all []string) {
	b.t.Helper()
	j, err := store.Open(b.t.Context(), b.js, job)
	if err != nil {
		b.t.Fatal(err)
	}
	for p := range partitions {
		r, err := j.Record(b.t.Context(), p)
		if err != nil || r.Kind != wire.KindReleased {
			b.t.Fatalf("partition %d ends with %q, want a release: %v", p, r.Kind, err)
		}
		all = append(all, r.Mark.Digest.String())
	}
	return all
}

// must does something to a NATS stream.
func (b *rig) must(stream string, do func(context.Context, jetstream.Stream) error) {
	b.t.Helper()
	s, err := b.js.Stream(context.Background(), stream)
	if err == nil {
		err = do(context.Background(), s)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// quick is a job with leases and snapshots as short as tests are.
func quick(job string, partitions int) pipeline.Config {
	return pipeline.Config{Job: job, Partitions: partitions, Lease: 600 * time.Millisecond, SnapshotMessages: 7, StopTimeout: 300 * time.Millisecond}
}
