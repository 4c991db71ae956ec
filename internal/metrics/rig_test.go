package metrics

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/registry"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

const patience = time.Minute // far longer than any test needs, so that only a hang exceeds it

// testModel has one channel and two classes; producers mark the ends of sequences.
func testModel(t *testing.T) *reservoir.Model {
	t.Helper()
	net, err := reservoir.Draw(reservoir.Spec{
		Arithmetic: reservoir.Arithmetic, Kind: reservoir.EuSN, Channels: 1, Members: 1, Units: 4, Seed: 7,
		Precision: reservoir.Float32, Features: []reservoir.Feature{reservoir.Last},
		Eps: reservoir.Fixed(0.1), Gamma: reservoir.Fixed(0.01), Recurrent: reservoir.Fixed(0.5), Input: reservoir.Fixed(1), Bias: reservoir.Fixed(0.1),
	})
	if err != nil {
		t.Fatal(err)
	}
	linear := &readout.Linear{Name: "test", Classes: []string{"a", "b"}, Center: make([]float32, 4), Weights: []float32{1, -1, 1, -1}, Intercept: make([]float32, 1)}
	m := &reservoir.Model{Network: net, Readouts: []*readout.Linear{linear}, Policy: reservoir.Policy{Kind: reservoir.Marked}, Channels: []string{"x"}}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	return m
}

// rig is a real server with a connection for the test.
type rig struct {
	*testing.T
	server *natsserver.Server
	js     jetstream.JetStream
}

func newRig(t *testing.T) *rig {
	t.Helper()
	s := pipelinetest.Server(t, natsserver.Options{})
	_, js := pipelinetest.Connect(t, s)
	return &rig{t, s, js}
}

// startStage runs a stage; stop stops the stage and waits for its end.
func (r *rig) startStage(counters *pipeline.Counters, c pipeline.Config) (stop func()) {
	r.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done, ready := make(chan error, 1), make(chan struct{})
	s := &pipeline.Worker{
		Job: pipeline.Job{
			Config: c, Model: testModel(r.T),
			NewEngine: func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
				return cpu.New(net, slots, cpu.Options{Kind: cpu.Generic})
			},
			Dial: func(_ context.Context, name string) (*nats.Conn, error) { return r.server.Connect(name, nil) },
		},
		Counters: counters, Ready: func() { close(ready) },
	}
	go func() { done <- s.Run(ctx) }()
	select {
	case <-ready:
	case err := <-done:
		cancel()
		r.Fatalf("the stage did not start: %v", err)
	case <-time.After(patience):
		r.Fatal("the stage does not start")
	}
	stopped := false
	stop = func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		if err := <-done; err != nil {
			r.Errorf("the stage ended with %v", err)
		}
	}
	r.Cleanup(stop)
	return stop
}

// startShadow adds a shadow readout.
func (r *rig) startShadow(counters *pipeline.Counters) {
	r.Helper()
	m := testModel(r.T)
	m.Readouts[0].Weights[0] = 2
	models, err := registry.Open(r.Context(), r.js, "eusn")
	if err != nil {
		r.Fatal(err)
	}
	e, _, err := models.Publish(r.Context(), m, "m", "", registry.Lineage{Who: "test", When: registry.Now()})
	if err == nil {
		_, err = operate.SetShadow(r.Context(), r.js, "eusn", operate.Shadow{Readout: e.Fingerprint, Who: "test"})
	}
	if err != nil {
		r.Fatal(err)
	}
	waitUntil(r.T, "the shadow to be scored", func() bool { return len(counters.Shadows()) == 1 })
}

// publishSamples publishes a message of samples with a key; header has pairs.
func (r *rig) publishSamples(key string, x []float32, header ...string) {
	r.Helper()
	enc, err := codec.NewInputEncoder([]string{"x"}, codec.InputOptions{})
	if err != nil {
		r.Fatal(err)
	}
	data, err := enc.Encode(&codec.Batch{Rows: len(x), X: x})
	if err != nil {
		r.Fatal(err)
	}
	r.sendMessage(key, bytes.Clone(data), header...)
}

func (r *rig) sendMessage(key string, data []byte, header ...string) {
	r.Helper()
	msg := nats.NewMsg("sensors." + key)
	msg.Data = data
	for i := 0; i < len(header); i += 2 {
		msg.Header.Set(header[i], header[i+1])
	}
	if _, err := r.js.PublishMsg(context.Background(), msg); err != nil {
		r.Fatal(err)
	}
}

func startServer(t *testing.T, o Options) (base string, s *Server) {
	t.Helper()
	s, err := Listen("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return "http://" + s.Addr(), s
}

func getPage(t *testing.T, url string) (code int, body string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %s within %v", what, patience)
		}
	}
}
