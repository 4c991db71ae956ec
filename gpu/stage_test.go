//go:build linux && cgo

package gpu

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/gpu/internal/testing/cudatest"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// Messages of the stage test: keys take turns; every sequence is 5 samples.
const (
	stageKeys, stageMessages, stageRows, stageLength = 6, 12, 7, 5
	stagePredictions                                 = stageKeys * (stageMessages * stageRows / stageLength)
)

// runStage publishes everything to a stage on a server of its own and returns
// the predictions of each key.
func runStage(t *testing.T, s pipeline.Worker) map[string][]codec.Prediction {
	t.Helper()
	server := pipelinetest.Server(t, natsserver.Options{Log: s.Log})
	s.Config = pipeline.Config{Job: "gpu", Partitions: 3, Shards: 1, RowBudget: 20, SnapshotMessages: 5, Lease: time.Second}
	s.Dial = func(_ context.Context, name string) (*nats.Conn, error) { return server.Connect(name, s.Log) }
	ready, done := make(chan struct{}), make(chan error, 1)
	s.Ready = func() { close(ready) }
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { done <- s.Run(ctx) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatalf("the stage ended with %v", err)
	}
	_, js := pipelinetest.Connect(t, server)
	publishStage(t, js)
	got := map[string][]codec.Prediction{}
	n := 0
	read, enough := context.WithTimeout(t.Context(), time.Minute)
	defer enough()
	err := consumer.Predictions(read, js, "gpu", 1, func(o consumer.Output) error {
		for _, p := range o.Predictions {
			got[p.Stream] = append(got[p.Stream], p)
		}
		if n += len(o.Predictions); n >= stagePredictions {
			enough()
		}
		return nil
	})
	if n != stagePredictions {
		t.Fatalf("%d predictions, want %d (%v)", n, stagePredictions, err)
	}
	stop()
	if err := <-done; err != nil {
		t.Fatalf("the stage ended with %v", err)
	}
	return got
}

func publishStage(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	enc, err := codec.NewInputEncoder([]string{"x", "y"}, codec.InputOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range stageMessages * stageKeys {
		x := make([]float32, 2*stageRows)
		for k := range x {
			x[k] = float32(rng.NormFloat64())
		}
		body, err := enc.Encode(&codec.Batch{Rows: stageRows, X: x})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.Publish(t.Context(), fmt.Sprintf("sensors.k%d", i%stageKeys), bytes.Clone(body)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStage runs a whole stage on the embedded PTX. Then the GPU fails during
// its work: the stage restores its partitions on the CPU, logs the change, and
// publishes every prediction once, equal to a run on the CPU only.
func TestStage(t *testing.T) {
	f := cudatest.Use(t, cudatest.Interpreter())
	net := testNetwork(t)
	m := &reservoir.Model{
		Network: net, Readouts: []*readout.Linear{testReadout(net.Spec.FeatureCount())}, Channels: []string{"x", "y"},
		Policy: reservoir.Policy{Kind: reservoir.Count, Length: stageLength},
	}
	cpu := func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		return cpu.New(net, slots, cpu.Options{Kind: cpu.Generic})
	}
	opened := 0
	onGPU := func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		opened++
		return newEngine(net, slots, Options{MaxSlots: 100}, defaultLimits, opened == 1)
	}
	want := runStage(t, pipeline.Worker{Job: pipeline.Job{Model: m, NewEngine: cpu}})
	same := func(what string, got map[string][]codec.Prediction) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: predictions differ from the CPU's:\n%v\nwant\n%v", what, got, want)
		}
	}
	var book bytes.Buffer
	log := slog.New(slog.NewTextHandler(&book, &slog.HandlerOptions{Level: slog.LevelError}))
	same("whole", runStage(t, pipeline.Worker{Job: pipeline.Job{Model: m, NewEngine: onGPU, Log: log}, Fallback: cpu}))
	if book.Len() > 0 {
		t.Errorf("the log of a run without failures:\n%s", &book)
	}
	launches := f.Count("launches")
	if opened != 1 || launches < 20 {
		t.Fatalf("%d engines and %d launches on the GPU, want one engine that did all the work", opened, launches)
	}
	opened = 0
	f.Set("fail_launch", launches+launches/2)
	same("lost", runStage(t, pipeline.Worker{Job: pipeline.Job{Model: m, NewEngine: onGPU, Log: log}, Fallback: cpu}))
	if s := book.String(); strings.Count(s, "engine lost") != 1 || !strings.Contains(s, "Fake GPU 0") {
		t.Errorf("the log does not say, once, that the GPU was lost:\n%s", s)
	}
}
