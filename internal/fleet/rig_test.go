package fleet_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/fleet"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

const job = "eusn"

// rig is a real server, with the asker's connection.
type rig struct {
	*testing.T
	server *natsserver.Server
	nc     *nats.Conn
	js     jetstream.JetStream
}

func newRig(t *testing.T) *rig {
	t.Helper()
	s := pipelinetest.Server(t, natsserver.Options{})
	nc, js := pipelinetest.Connect(t, s)
	return &rig{t, s, nc, js}
}

// worker is a stage that answers.
type worker struct {
	r        *rig
	counters *pipeline.Counters
	journal  fleet.Journal
	answers  *fleet.Responder
	cancel   context.CancelFunc
	done     chan struct{}

	mu    sync.Mutex
	conns []*nats.Conn // the first connection answers
}

func testModel(t *testing.T) *reservoir.Model {
	return pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
}

// startWorker runs a worker until the test's end, and waits until it reads.
func (r *rig) startWorker(m *reservoir.Model, c pipeline.Config) *worker {
	r.Helper()
	w := &worker{r: r, counters: new(pipeline.Counters), done: make(chan struct{})}
	nc, err := r.server.Connect("status", nil)
	if err != nil {
		r.Fatal(err)
	}
	w.conns = append(w.conns, nc)
	log := w.journal.WrapLogger(pipelinetest.Log(r.T))
	if w.answers, err = fleet.Serve(nc, fleet.Self{Job: job, Program: "v1.2.3", Source: fleet.NewStageSource(w.counters), Journal: &w.journal, Log: log}); err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	c.Job, c.StopTimeout = job, time.Second
	s := &pipeline.Worker{
		Job: pipeline.Job{
			Config: c, Model: m, ModelName: "m.safetensors", Log: log, NewEngine: pipelinetest.Generic,
			Dial: func(ctx context.Context, name string) (*nats.Conn, error) {
				nc, err := r.server.Connect(name, nil)
				w.mu.Lock()
				defer w.mu.Unlock()
				w.conns = append(w.conns, nc)
				return nc, err
			},
		},
		Counters: w.counters,
	}
	go func() { defer close(w.done); _ = s.Run(ctx) }()
	r.Cleanup(w.stop)
	return w
}

func (w *worker) stop() {
	w.cancel()
	<-w.done
	if w.answers != nil {
		w.answers.Close()
	}
	w.answers = nil
}

// kill ends a worker without an orderly disconnect.
func (w *worker) kill() {
	w.mu.Lock()
	for _, nc := range w.conns { // before the end of the context, at which a worker leaves the job's list
		nc.Close()
	}
	w.mu.Unlock()
	w.cancel()
	<-w.done
	w.answers.Close()
	w.answers = nil
}

// report builds a report.
func (r *rig) report() *fleet.Report {
	r.Helper()
	rep, err := fleet.BuildReport(r.Context(), r.nc, job)
	if err != nil {
		r.Fatal(err)
	}
	return rep
}

// waitForReport builds reports until one meets a condition.
func (r *rig) waitForReport(what string, ok func(*fleet.Report) bool) (rep *fleet.Report) {
	r.Helper()
	defer func() {
		if r.Failed() {
			r.Logf("%+v", rep)
		}
	}()
	pipelinetest.Until(r.T, what, func() bool {
		var err error
		if rep, err = fleet.BuildReport(r.Context(), r.nc, job); err != nil {
			rep = nil
			return false
		}
		return ok(rep)
	})
	return rep
}

// publishSamples publishes samples of a complete sequence.
func (r *rig) publishSamples(key string, n int) {
	r.Helper()
	p := pipelinetest.One(key, 1, n, .5, true)
	m := &nats.Msg{Subject: "sensors." + key, Data: p.Payload(r.T), Header: nats.Header(p.Headers())}
	if _, err := r.js.PublishMsg(r.Context(), m); err != nil {
		r.Fatal(err)
	}
}

// firstFinding returns the first finding about a subject.
func firstFinding(rep *fleet.Report, about string) fleet.Finding {
	for _, f := range rep.Findings {
		if f.About == about {
			return f
		}
	}
	return fleet.Finding{}
}
