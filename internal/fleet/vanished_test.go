package fleet_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/fleet"
	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// A gateway that is killed becomes a finding within two heartbeats. A gateway that ends in
// order, and one that is started again on the same host, do not.
func TestVanishedGateway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.start(testModel(t), pipeline.Config{Partitions: 2})
	serve := func() (end func(), nc *nats.Conn) {
		t.Helper()
		nc, err := r.server.Connect("gateway", nil)
		if err != nil {
			t.Fatal(err)
		}
		answers, err := fleet.Serve(nc, fleet.Self{Job: job, Teller: fleet.OfGateway(func() gateway.Stats { return gateway.Stats{} })})
		if err != nil {
			t.Fatal(err)
		}
		end = sync.OnceFunc(answers.Close)
		t.Cleanup(end)
		return end, nc
	}
	sighted := func(n int) func(*fleet.Report) bool {
		return func(rep *fleet.Report) bool {
			for _, p := range rep.Processes {
				if p.Stage != nil {
					return len(p.Stage.Sightings) == n+1 // and the worker
				}
			}
			return false
		}
	}
	end, _ := serve()
	r.until("a worker that remembers the gateway", sighted(1))
	end()
	if rep := r.until("a worker that has forgotten the gateway", sighted(0)); len(rep.Vanished) > 0 {
		t.Errorf("a gateway that ended in order is reported: %+v", rep.Vanished)
	}

	_, killed := serve()
	r.until("a worker that remembers the second gateway", sighted(1))
	killed.Close() // no last heartbeat
	rep := r.until("the finding", func(rep *fleet.Report) bool { return len(rep.Vanished) == 1 })
	if f := find(rep, "gateway"); f.Level != fleet.Attention || !strings.Contains(f.Sentence, "did not end in order") {
		t.Errorf("%+v", rep.Findings)
	}
	_, _ = serve()
	r.until("a report without the finding after the restart", func(rep *fleet.Report) bool { return sighted(2)(rep) && len(rep.Vanished) == 0 })
	if s := w.counters.Status(); s.Unready() != nil {
		t.Errorf("the stage is not ready: %q", s.Unready())
	}
}

// A worker that is killed becomes a finding after its lease, while another worker has its
// partitions. A worker that ends in order does not.
func TestVanishedWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m, c := testModel(t), pipeline.Config{Partitions: 2, Lease: 500 * time.Millisecond}
	r.start(m, c)
	two := func(rep *fleet.Report) bool {
		return len(rep.Processes) == 2 && len(rep.Processes[0].Stage.Sightings) == 2 && len(rep.Processes[1].Stage.Sightings) == 2
	}
	one := func(rep *fleet.Report) bool {
		return len(rep.Processes) == 1 && len(rep.Silent) == 0 && rep.Partitions.Phases["reading"] == 2
	}
	other := r.start(m, c)
	r.until("two workers that remember each other", two)
	other.stop()
	if rep := r.until("one worker that reads", one); len(rep.Vanished) > 0 {
		t.Errorf("a worker that ended in order is reported: %+v", rep.Vanished)
	}

	other = r.start(m, c)
	r.until("two workers that remember each other", two)
	other.kill()
	rep := r.until("the finding", func(rep *fleet.Report) bool { return one(rep) && len(rep.Vanished) == 1 })
	if f := find(rep, "workers"); f.Level != fleet.Attention || !strings.Contains(f.Sentence, "the other workers have its partitions") {
		t.Errorf("%+v", rep.Findings)
	}
}
