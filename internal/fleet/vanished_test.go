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

// TestVanishedGateway: a killed gateway becomes a finding within two heartbeats. A gateway that
// ends orderly, or that is restarted on the same host, does not.
func TestVanishedGateway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.startWorker(testModel(t), pipeline.Config{Partitions: 2})
	serve := func() (end func(), nc *nats.Conn) {
		t.Helper()
		nc, err := r.server.Connect("gateway", nil)
		if err != nil {
			t.Fatal(err)
		}
		answers, err := fleet.Serve(nc, fleet.Self{Job: job, Source: fleet.NewGatewaySource(func() gateway.Stats { return gateway.Stats{} })})
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
	r.waitForReport("a worker that remembers the gateway", sighted(1))
	end()
	if rep := r.waitForReport("a worker that has forgotten the gateway", sighted(0)); len(rep.Vanished) > 0 {
		t.Errorf("a gateway that ended in order is reported: %+v", rep.Vanished)
	}

	_, killed := serve()
	r.waitForReport("a worker that remembers the second gateway", sighted(1))
	killed.Close() // no last heartbeat
	rep := r.waitForReport("the finding", func(rep *fleet.Report) bool { return len(rep.Vanished) == 1 })
	if f := firstFinding(rep, "gateway"); f.Level != fleet.Attention || !strings.Contains(f.Sentence, "did not shut down cleanly") {
		t.Errorf("%+v", rep.Findings)
	}
	_, _ = serve()
	r.waitForReport("a report without the finding after the restart", func(rep *fleet.Report) bool { return sighted(2)(rep) && len(rep.Vanished) == 0 })
	if s := w.counters.Status(); s.Unready() != nil {
		t.Errorf("the stage is not ready: %q", s.Unready())
	}
}

// TestVanishedWorker: a killed worker becomes a finding after its lease, while another worker has
// its partitions. A worker that ends orderly does not.
func TestVanishedWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m, c := testModel(t), pipeline.Config{Partitions: 2, Lease: 500 * time.Millisecond}
	r.startWorker(m, c)
	two := func(rep *fleet.Report) bool {
		return len(rep.Processes) == 2 && len(rep.Processes[0].Stage.Sightings) == 2 && len(rep.Processes[1].Stage.Sightings) == 2
	}
	one := func(rep *fleet.Report) bool {
		return len(rep.Processes) == 1 && len(rep.Silent) == 0 && rep.Partitions.Phases["reading"] == 2
	}
	other := r.startWorker(m, c)
	r.waitForReport("two workers that remember each other", two)
	other.stop()
	if rep := r.waitForReport("one worker that reads", one); len(rep.Vanished) > 0 {
		t.Errorf("a worker that ended in order is reported: %+v", rep.Vanished)
	}

	other = r.startWorker(m, c)
	r.waitForReport("two workers that remember each other", two)
	other.kill()
	rep := r.waitForReport("the finding", func(rep *fleet.Report) bool { return one(rep) && len(rep.Vanished) == 1 })
	if f := firstFinding(rep, "workers"); f.Level != fleet.Attention || !strings.Contains(f.Sentence, "the other workers have its partitions") {
		t.Errorf("%+v", rep.Findings)
	}
}
