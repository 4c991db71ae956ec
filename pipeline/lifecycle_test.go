package pipeline_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/producer"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// ownGoroutines lists the goroutines that run this package's or the NATS client's code.
func ownGoroutines() []string {
	buf := make([]byte, 4<<20)
	var out []string
	for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if (strings.Contains(g, "/eusn-stream/pipeline") || strings.Contains(g, "nats.go@")) && !strings.Contains(g, "testing.tRunner") &&
			!strings.Contains(g, "nats-server") && !clientsOwnLeak(g) {
			out = append(out, g)
		}
	}
	return out
}

// clientsOwnLeak is a goroutine that nats.go 1.55.0 starts with the first asynchronous
// publish. If the goroutine first runs after the close of the connection, the channel
// is nil and the goroutine waits indefinitely; no caller can end it.
func clientsOwnLeak(g string) bool {
	return strings.Contains(g, "[chan receive (nil chan)") && strings.Contains(g, "resetPendingAcksOnReconnect")
}

// When Run, Publish and Predictions have returned and the server is closed, none of
// their goroutines is left. The test must not run in parallel with others.
func TestNothingLeaks(t *testing.T) {
	before := len(ownGoroutines())
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	srv, err := natsserver.Start(t.Context(), natsserver.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := srv.Connect("leak", nil)
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	b := &rig{t: t, srv: srv, nc: nc, js: js, log: testLog(t)}
	r := b.startStage(m, pipeline.Config{Job: "leak", Partitions: 16})
	list, _ := numberedSeries(10, 5, true)
	if _, err := (producer.Publisher{Channels: m.Channels}).Publish(t.Context(), nc, producer.FromSlice(list)); err != nil {
		t.Fatal(err)
	}
	b.settleMessages(r, 10)
	b.readPredictions("leak")
	if len(ownGoroutines()) <= before {
		t.Fatal("a running stage shows no goroutine: the test sees nothing")
	}
	r.stopStage(t)
	nc.Close()
	srv.Close()
	var left []string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if left = ownGoroutines(); len(left) <= before {
			return
		}
	}
	t.Fatalf("%d goroutines left, %d before:\n%s", len(left), before, strings.Join(left, "\n\n"))
}

// broken is a real engine that fails at the third call.
type broken struct {
	reservoir.Engine
	calls int
	how   func() error
}

func (e *broken) Advance(x []float32, runs []reservoir.Run, scores []float32) error {
	if e.calls++; e.calls == 3 {
		return e.how()
	}
	return e.Engine.Advance(x, runs, scores)
}

// An engine that fails, or panics, stops the stage with the reason; the next run
// answers the uncommitted input.
func TestEngineFailureStopsTheStage(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	streams := pipelinetest.Recordings(4, 40)
	packets, sent := pipelinetest.Mixed(streams, 3)
	for name, how := range map[string]func() error{
		"out of order": func() error { return errors.New("out of order") },
		"BUG: on fire": func() error { panic("on fire") },
	} {
		b := newRig(t)
		c := pipeline.Config{Job: "broken", Partitions: 2, Shards: 1, RowBudget: 10}
		failing := func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
			e, err := pipelinetest.Generic(net, slots)
			return &broken{Engine: e, how: how}, err
		}
		broken := b.startWith(m, c, failing)
		b.publishPackets(packets)
		mentions(t, broken.waitForEnd(t), name)
		r := b.startStage(m, c)
		b.settleMessages(r, len(packets))
		r.stopStage(t)
		same(t, b.readPredictions("broken"), direct(t, m, streams, sent))
	}
}

func TestStageRefuses(t *testing.T) {
	b := newRig(t)
	good := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	headless := *good
	headless.Readouts = nil
	badPolicy := *good
	badPolicy.Policy = reservoir.Policy{Kind: "sometimes"}
	away := func(context.Context, string) (*nats.Conn, error) {
		return natsclient.Connect(t.Context(), natsclient.Options{URL: "nats://127.0.0.1:1"})
	}
	noEngine := func(*reservoir.Network, int) (reservoir.Engine, error) { return nil, errors.New("no such device") }
	for _, c := range []struct {
		s    pipeline.Worker
		want string
	}{
		{pipeline.Worker{Job: pipeline.Job{Dial: b.dialServer, NewEngine: pipelinetest.Generic}}, "without model"},
		{pipeline.Worker{Job: pipeline.Job{Model: &headless, Dial: b.dialServer, NewEngine: pipelinetest.Generic}}, "no readout"},
		{pipeline.Worker{Job: pipeline.Job{Model: &badPolicy, Dial: b.dialServer, NewEngine: pipelinetest.Generic}}, "sometimes"},
		{pipeline.Worker{Job: pipeline.Job{Model: good, Dial: b.dialServer, NewEngine: pipelinetest.Generic, Config: pipeline.Config{Readout: "other"}}}, `"other"`},
		{pipeline.Worker{Job: pipeline.Job{Model: good, Dial: b.dialServer, NewEngine: pipelinetest.Generic, Config: pipeline.Config{Partitions: -2}}}, "Partitions is -2"},
		{pipeline.Worker{Job: pipeline.Job{Model: good, Dial: away, NewEngine: pipelinetest.Generic}}, "127.0.0.1:1"},
		{pipeline.Worker{Job: pipeline.Job{Model: good, Dial: b.dialServer, NewEngine: noEngine}}, "no such device"},
	} {
		mentions(t, c.s.Run(t.Context()), c.want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (&pipeline.Worker{Job: pipeline.Job{Model: good, Dial: b.dialServer, NewEngine: pipelinetest.Generic}}).Run(ctx); err != nil {
		t.Errorf("stopped before it began: %v", err)
	}
}

// The named readout predicts.
func TestHeadByName(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	second := *pipelinetest.Model(t, 2, m.Policy).Readouts[0]
	second.Name, second.Classes = "second", []string{"no", "yes"}
	m.Readouts = append(m.Readouts, &second)
	b := newRig(t)
	b.answerPackets(m, pipeline.Config{Job: "several", Partitions: 1, Readout: "second"}, []pipelinetest.Packet{pipelinetest.One("a", 1, 3, 1, true)}, 1)
	got := b.readPredictions("several")["a"][0]
	only := *m
	only.Readouts = []*readout.Linear{&second}
	exp := predictAlone(t, &only, codec.Reject, pipelinetest.One("a", 1, 3, 1, true))[0]
	if !sameBits(got.Scores, exp.Scores) || got.Score != second.Score(got.Scores, int(got.Class)) || got.Score <= 0 {
		t.Errorf("%+v, want %+v", got, exp)
	}
}
