package fleet_test

import (
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/fleet"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// TestConsumersOfKilledWorkers: consumers of killed workers remain for half a minute. The consumers
// of three consecutive workers fit into an input's reserve, and no partition lacks a consumer.
func TestConsumersOfKilledWorkers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m, c := testModel(t), pipeline.Config{Partitions: 8, Lease: 500 * time.Millisecond}
	r.startWorker(m, c)
	other := r.startWorker(m, c)
	two := func(rep *fleet.Report) bool {
		return len(rep.Processes) == 2 && rep.Partitions.Phases["reading"] == 8 && rep.Processes[0].Stage.Phases["reading"] == 4
	}
	for range 3 {
		r.waitForReport("two workers that read", two)
		other.kill()
		other = r.startWorker(m, c)
	}
	rep := r.waitForReport("two workers that read after three kills", two)
	in, err := r.js.Stream(t.Context(), wire.InputStream(job))
	if err != nil {
		t.Fatal(err)
	}
	if n := in.CachedInfo().State.Consumers; n <= 8 || n > store.ConsumersFor(8) {
		t.Errorf("%d consumers, want more than the 8 in use and at most %d", n, store.ConsumersFor(8))
	}
	if n := rep.Partitions.Phases["deferred"] + rep.Partitions.Phases["stopped"]; n > 0 {
		t.Errorf("%d partitions are deferred or stopped", n)
	}
}
