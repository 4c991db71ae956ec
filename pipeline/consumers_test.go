package pipeline_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// A server allows few consumers of a NATS stream by default: a job's input sets a
// higher limit, and accepts one more consumer than the default.
func TestInputTakesManyConsumers(t *testing.T) {
	t.Parallel()
	s := pipelinetest.Serve(t, &server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, JetStream: true, StoreDir: t.TempDir(),
		JetStreamLimits: server.JSLimitOpts{DefaultMaxConsumers: 3}})
	b := &rig{t: t, log: testLog(t), url: s.ClientURL()}
	b.readStreams()
	c := pipeline.Config{Job: "many", Partitions: 8}.WithDefaults()
	if err := store.EnsureStreams(t.Context(), b.js, c.Layout(), b.log); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{wire.InputStream(c.Job), wire.OutputStream(c.Job)} {
		for i := range 9 {
			if _, err := b.js.CreateConsumer(t.Context(), name, jetstream.ConsumerConfig{Name: fmt.Sprint("c", i)}); err != nil {
				t.Fatalf("%s, consumer %d: %v", name, i, err)
			}
		}
	}
	durable, err := b.js.CreateConsumer(t.Context(), wire.InputStream(c.Job), jetstream.ConsumerConfig{Durable: "left"})
	if err != nil {
		t.Fatal(err)
	}
	if got := durable.CachedInfo().Config.InactiveThreshold; got != time.Hour {
		t.Errorf("a durable consumer of the input that nobody uses stays for %v, want an hour", got)
	}
}

// An input without room for another consumer defers the affected partitions. They
// continue when there is room.
func TestTooManyConsumersDefer(t *testing.T) {
	t.Parallel()
	b, book := newLoggedRig(t)
	c := quickConfig("crowded", 4)
	if err := store.EnsureStreams(t.Context(), b.js, c.WithDefaults().Layout(), b.log); err != nil {
		t.Fatal(err)
	}
	b.editStream(wire.InputStream(c.Job), func(s *jetstream.StreamConfig) { s.MaxConsumers = 2 })
	others := func(do func(name string) error) {
		for i := range 2 {
			if err := do(fmt.Sprint("other", i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	others(func(name string) error {
		_, err := b.js.CreateConsumer(t.Context(), wire.InputStream(c.Job), jetstream.ConsumerConfig{Durable: name})
		return err
	})
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{cancel: cancel, done: make(chan error, 1)}
	s := &pipeline.Worker{Job: pipeline.Job{Config: c, Model: pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked}), ModelName: "test-model", NewEngine: pipelinetest.Generic, Dial: b.dialServer, Log: b.log}, Counters: &r.counters}
	go func() { r.done <- s.Run(ctx) }()
	deferred := func() (n int) {
		for p := range 4 {
			phase, why := r.phaseOf(p)
			if phase == pipeline.Stopped {
				t.Fatalf("partition %d stopped: %s", p, why)
			}
			if phase == pipeline.Deferred {
				n++
			}
		}
		return n
	}
	waitFor(t, "deferred partitions", func() bool { return deferred() == 4 })
	waitFor(t, "a line that tells why", func() bool { return book.Lines("has as many consumers as it may have") >= 4 })
	if book.Lines("may have 2 consumers") != 1 {
		t.Errorf("the log does not tell the limit:\n%s", book.String())
	}
	others(func(name string) error { return b.js.DeleteConsumer(t.Context(), wire.InputStream(c.Job), name) })
	b.editStream(wire.InputStream(c.Job), func(s *jetstream.StreamConfig) { s.MaxConsumers = 16 })
	var keys []string
	for p := range 4 {
		keys = append(keys, keysIn(p, 4, 1)...)
	}
	for _, key := range keys {
		b.publishPackets(endedSequences(key, 1, 1))
	}
	b.awaitPredictions(c.Job, 4)
	r.stopStage(t)
}

// If an account allows fewer consumers than requested, the job's NATS streams are
// created without their own limit.
func TestAccountWithFewConsumers(t *testing.T) {
	t.Parallel()
	s := pipelinetest.Serve(t, &server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, JetStream: true, StoreDir: t.TempDir()})
	if err := s.GlobalAccount().UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": {MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MaxConsumers: 50, MaxAckPending: -1}}); err != nil {
		t.Fatal(err)
	}
	nc, err := natsclient.Connect(t.Context(), natsclient.Options{URL: s.ClientURL(), Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js := pipelinetest.JetStream(t, nc)
	c := pipeline.Config{Job: "small", Partitions: 2}.WithDefaults()
	book := &pipelinetest.LogBook{}
	for _, want := range []int{0, 1} { // 8 consumers for 2 partitions, 52 for 13
		if err := store.EnsureStreams(t.Context(), js, c.Layout(), book.Logger()); err != nil {
			t.Fatal(err)
		}
		if n := book.Lines("may have 50 consumers"); n != want || want > 0 && book.Lines("raise max_consumers of the account's JetStream limits to 52 or more") != want {
			t.Errorf("told %d times, want %d:\n%s", n, want, book)
		}
		c = pipeline.Config{Job: "large", InputSubject: "large.*", Partitions: 13}.WithDefaults()
	}
}

// The limit of a NATS stream's consumers is the lowest of all limits.
func TestConsumerLimit(t *testing.T) {
	t.Parallel()
	account := func(most int) *jetstream.AccountInfo {
		return &jetstream.AccountInfo{Tier: jetstream.Tier{Limits: jetstream.AccountLimits{MaxConsumers: most}}}
	}
	tiers := &jetstream.AccountInfo{Tiers: map[string]jetstream.Tier{"R3": {Limits: jetstream.AccountLimits{MaxConsumers: 7}}}}
	for _, c := range []struct {
		stream, replicas int
		account          *jetstream.AccountInfo
		want             int
	}{
		{-1, 1, nil, 1000}, {0, 1, account(-1), 1000}, {5, 1, nil, 5}, {5, 1, account(-1), 5}, {5, 1, account(3), 3}, {5, 1, account(9), 5}, {-1, 1, account(9), 9},
		{65536, 1, account(-1), 65536}, {-1, 3, tiers, 7}, {-1, 1, tiers, 1000},
	} {
		if got := store.ConsumerLimit(jetstream.StreamConfig{MaxConsumers: c.stream, Replicas: c.replicas}, c.account); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
