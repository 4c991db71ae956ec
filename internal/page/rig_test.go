package page

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/fleet"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Names that are harmful as HTML, as an attribute or in a shell.
const (
	evilClass    = `<img src=x onerror="document.title='harm'">`
	evilStream   = `<svg/onload=harm='1'>&'"$(harm)`
	turnedStream = "\u202e7-pmup\x1b[2J" // reverses the direction of surrounding text, and would clear a terminal
)

// rig is a server, a stage and its page.
type rig struct {
	testing.TB
	server   *natsserver.Server
	nc       *nats.Conn
	js       jetstream.JetStream
	model    *reservoir.Model
	counters *pipeline.Counters
	page     *Page
	web      *httptest.Server
	url      string
	seq      map[string]uint64
}

func newRig(t testing.TB) *rig {
	t.Helper()
	return newRigOf(t, func(*reservoir.Model) {})
}

// newRigOf starts a rig whose model was changed.
func newRigOf(t testing.TB, change func(*reservoir.Model)) *rig {
	t.Helper()
	s := pipelinetest.Server(t, natsserver.Options{})
	nc, js := pipelinetest.Connect(t, s)
	r := &rig{TB: t, server: s, nc: nc, js: js, counters: new(pipeline.Counters), seq: map[string]uint64{}}
	r.model = pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	linear := *r.model.Readouts[0]
	linear.Temperature, linear.Classes = .5, slices.Clone(linear.Classes)
	linear.Classes[1] = evilClass
	r.model.Readouts = []*readout.Linear{&linear}
	change(r.model)
	ctx, cancel := context.WithCancel(context.Background())
	done, ready := make(chan error, 1), make(chan struct{})
	stage := &pipeline.Worker{
		Job: pipeline.Job{
			Config: pipeline.Config{InputSubject: "sensors.>", Partitions: 4, Shards: 2}, Model: r.model, ModelName: "plant", NewEngine: pipelinetest.Generic,
			Dial: func(_ context.Context, name string) (*nats.Conn, error) { return s.Connect(name, nil) },
		},
		Counters: r.counters, Ready: func() { close(ready) },
	}
	go func() { done <- stage.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the stage ended with %v", err)
		}
	})
	select {
	case <-ready:
	case err := <-done:
		done <- err
		t.Fatalf("the stage did not start: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the stage does not start")
	}
	r.page = Start(Options{Counters: r.counters, Job: "eusn", Version: "v1.2.3", Channels: r.model.Channels})
	r.web = httptest.NewServer(r.page)
	t.Cleanup(func() {
		r.page.Close() // ends open events, for which the server would wait
		r.web.Close()
	})
	r.url = r.web.URL
	return r
}

// newReport makes the stage answer, and returns a function that requests its status as the program
// does.
func (r *rig) newReport() func(context.Context) (*fleet.Report, error) {
	r.Helper()
	nc, err := r.server.Connect("status", nil)
	if err != nil {
		r.Fatal(err)
	}
	answers, err := fleet.Serve(nc, fleet.Self{Job: "eusn", Program: "v1.2.3", Source: fleet.NewStageSource(r.counters)})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(answers.Close)
	return func(ctx context.Context) (*fleet.Report, error) { return Report(ctx, r.nc, "eusn") }
}

// predictTimes makes a stream predict n times.
func (r *rig) predictTimes(stream string, n int) {
	r.Helper()
	before := r.counters.Stats().Predictions
	r.publishSequences(stream, n)
	r.waitForPredictions(before + uint64(n))
}

// waitUntilCurrent waits until the server has reported that no partition has waiting messages.
func (r *rig) waitUntilCurrent() {
	r.Helper()
	for end := time.Now().Add(pipelinetest.Patience); ; time.Sleep(10 * time.Millisecond) {
		s := r.counters.Status()
		if maxLag(&s) == 0 {
			return
		}
		if time.Now().After(end) {
			r.Fatalf("it is not known that nothing waits: %+v", s.Partitions)
		}
	}
}

// publishSequences publishes n sequences of a stream.
func (r *rig) publishSequences(stream string, n int) {
	r.Helper()
	for i := range n {
		r.publishSequence(stream, float32(i%5)-2)
	}
}

// publishSequence publishes a sequence of 8 samples of one value.
func (r *rig) publishSequence(stream string, v float32) {
	r.Helper()
	r.seq[stream]++
	p := pipelinetest.One(stream, r.seq[stream], 8, v, true)
	m := nats.NewMsg("sensors." + stream)
	m.Data = p.Payload(r)
	for name, values := range p.Headers() {
		m.Header[name] = values
	}
	if _, err := r.js.PublishMsg(r.Context(), m); err != nil {
		r.Fatal(err)
	}
}

// waitForPredictions waits for a total number of predictions.
func (r *rig) waitForPredictions(n uint64) {
	r.Helper()
	pipelinetest.Until(r, "its predictions", func() bool { return r.counters.Stats().Predictions >= n })
}

// get returns an answer of the page.
func (r *rig) get(path string) *http.Response {
	r.Helper()
	resp, err := http.Get(r.url + path)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { resp.Body.Close() })
	return resp
}
