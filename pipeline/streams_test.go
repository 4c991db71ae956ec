package pipeline_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// The documented mapping from key to partition equals the server's.
func TestPartitionIsFNV(t *testing.T) {
	b := newRig(t)
	c := pipeline.Config{Job: "fnv", Partitions: 13}.WithDefaults()
	if err := store.EnsureStreams(t.Context(), b.js, c.Layout(), b.log); err != nil {
		t.Fatal(err)
	}
	in, err := b.js.Stream(t.Context(), wire.InputStream(c.Job))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		key := fmt.Sprintf("k-%d", i*i)
		ack, err := b.js.Publish(t.Context(), "sensors."+key, nil)
		if err != nil {
			t.Fatal(err)
		}
		msg, err := in.GetMsg(t.Context(), ack.Sequence)
		if err != nil {
			t.Fatal(err)
		}
		h := fnv.New32a()
		h.Write([]byte(key))
		if want := fmt.Sprintf("fnv.in.%d.%s", h.Sum32()%13, key); msg.Subject != want {
			t.Fatalf("stored as %s, want %s", msg.Subject, want)
		}
	}
}

// Existing streams are never modified: differences that affect results are errors,
// other limits stay.
func TestExistingStreams(t *testing.T) {
	b := newRig(t)
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	run := func(c pipeline.Config) error {
		s := pipeline.Worker{Job: pipeline.Job{Config: c, Model: m, NewEngine: pipelinetest.Generic, Dial: b.dialServer, Log: b.log}}
		return s.Run(t.Context())
	}
	base := pipeline.Config{Job: "old", Partitions: 8}
	b.startStage(m, base).stopStage(t)
	c := base
	c.Partitions = 16
	mentions(t, run(c), "OLD-IN", "partition(8,1)", "partition(16,1)", "resize the job")
	c = base
	c.InputSubject = "plant.*"
	mentions(t, run(c), "OLD-IN", "sensors.*", "plant.*")
	c = base
	c.Job = "other" // the same input subject
	mentions(t, run(c), "OTHER-IN", "overlap", "each job an input subject of its own")
	c = base
	c.MaxMessage = 8 << 20
	mentions(t, run(c), "max_payload")
	c = base
	c.OutputKeep, c.InputMaxAge = 5, time.Hour // differences without effect
	b.startStage(m, c).stopStage(t)
	out, err := b.js.Stream(t.Context(), wire.OutputStream("old"))
	if err != nil {
		t.Fatal(err)
	}
	if out.CachedInfo().Config.MaxMsgsPerSubject != -1 {
		t.Error("an existing NATS stream was changed")
	}
	cfg := out.CachedInfo().Config
	cfg.MaxAge = time.Hour
	if _, err := b.js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	mentions(t, run(base), "OLD-OUT", "max age", "must stay")
	b.editStream(wire.OutputStream("old"), func(c *jetstream.StreamConfig) { c.MaxAge, c.MaxMsgs = 0, 5 })
	mentions(t, run(base), "OLD-OUT", "max messages 5", "must stay", "--max-msgs=-1")
	b.editStream(wire.OutputStream("old"), func(c *jetstream.StreamConfig) { c.MaxMsgs, c.MaxBytes = -1, 1<<20 })
	mentions(t, run(base), "OLD-OUT", "max bytes 1048576", "must stay")
	b.editStream(wire.OutputStream("old"), func(c *jetstream.StreamConfig) { c.MaxMsgs, c.Discard = 1000, jetstream.DiscardNew }) // the server refuses, and the stage gets an error
	b.editStream(wire.InputStream("old"), func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 3 })
	mentions(t, run(base), "OLD-IN", "max messages per subject 3", "before they are read")
	b.editStream(wire.InputStream("old"), func(c *jetstream.StreamConfig) { c.DiscardNewPerSubject = true })
	b.startStage(m, base).stopStage(t)
	r := b.startStage(m, pipeline.Config{Job: "old", Partitions: 8, Lease: 300 * time.Millisecond})
	b.editStream(wire.OutputStream("old"), func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld })
	mentions(t, r.waitForEnd(t), "OLD-OUT", "max messages 1000", "must stay") // under a running stage too
}

// An input recreated under an old output is detected.
func TestInputRecreated(t *testing.T) {
	b := newRig(t)
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	c := pipeline.Config{Job: "new", Partitions: 1}
	b.answerPackets(m, c, []pipelinetest.Packet{pipelinetest.One("a", 1, 1, 1, true)}, 1)
	if err := b.js.DeleteStream(t.Context(), wire.InputStream("new")); err != nil {
		t.Fatal(err)
	}
	s := pipeline.Worker{Job: pipeline.Job{Config: c, Model: m, NewEngine: pipelinetest.Generic, Dial: b.dialServer}}
	err := s.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "deleted and created again") && !strings.Contains(err.Error(), "lost its last messages") {
		t.Fatalf("stage on a recreated input: %v", err)
	}
}

func TestForeignOutput(t *testing.T) {
	b := newRig(t)
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	c := pipeline.Config{Job: "foreign", Partitions: 1}
	b.startStage(m, c).stopStage(t)
	ack, err := b.js.PublishMsg(t.Context(), &nats.Msg{Subject: "foreign.out.0", Data: []byte("hello")})
	if err != nil {
		t.Fatal(err)
	}
	advice := fmt.Sprintf("nats stream rmm FOREIGN-OUT %d", ack.Sequence)
	s := pipeline.Worker{Job: pipeline.Job{Config: c, Model: m, NewEngine: pipelinetest.Generic, Dial: b.dialServer}}
	mentions(t, s.Run(t.Context()), "foreign.out.0", "another program publishes there", advice)
	err = consumer.Predictions(t.Context(), b.js, "foreign", 1, func(consumer.Output) error { return nil })
	mentions(t, err, fmt.Sprint("message ", ack.Sequence), advice)
	out, err := b.js.Stream(t.Context(), wire.OutputStream("foreign"))
	if err == nil {
		err = out.DeleteMsg(t.Context(), ack.Sequence)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.expireMembers("foreign")
	b.startStage(m, c).stopStage(t) // the advice helps
	err = consumer.Predictions(t.Context(), b.js, "nosuch", 1, func(consumer.Output) error { return nil })
	mentions(t, err, "NOSUCH-OUT", "job name")
}

func TestConfigValidate(t *testing.T) {
	if err := (pipeline.Config{}).Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	err := pipeline.Config{
		Job: "A b", InputSubject: "x.>.y", Partitions: -1, Shards: 9, RowBudget: -1, MaxMessage: 1, MaxSlots: -1, MaxStreams: -1,
		NonFinite: "maybe", Replicas: 9, Latency: time.Hour, OutputKeep: -2,
	}.Validate()
	mentions(t, err, "job", "input subject", "Partitions is -1, want 0 to 4096", "Shards is 9, want at most 1", "RowBudget", "MaxMessage", "MaxSlots", "MaxStreams",
		"non-finite", "Replicas", "Latency is 1h0m0s, want at most 1m0s", "OutputKeep is -2, want at least -1")
	for _, s := range []string{"sensors", "*", "a..*", "a.>.*", "$JS.*", "a\tb.*", "a.{b", "eusn.>", "eusn.in.*"} {
		if err := (pipeline.Config{InputSubject: s}).Validate(); err == nil {
			t.Errorf("input subject %q passed", s)
		}
	}
}

// A server without JetStream is named as the reason.
func TestNoJetStream(t *testing.T) {
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	defer ns.Shutdown()
	if !ns.ReadyForConnections(patience) {
		t.Fatal("server not ready")
	}
	s := pipeline.Worker{Job: pipeline.Job{Model: pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked}), NewEngine: pipelinetest.Generic,
		Dial: func(ctx context.Context, name string) (*nats.Conn, error) {
			return natsclient.Connect(t.Context(), natsclient.Options{URL: ns.ClientURL(), Name: name})
		},
	}}
	mentions(t, s.Run(t.Context()), "JetStream", "enabled")
}
