package pipeline_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// A worker without a configured number of partitions uses the job's; a new job gets the
// default, or its first worker's default for new jobs.
func TestPartitionsAreTheJobs(t *testing.T) {
	b := newRig(t)
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	owns := func(c pipeline.Config, want int64) {
		t.Helper()
		r := b.startStage(m, c)
		r.waitUntil(t, fmt.Sprint(want, " partitions"), func(s pipeline.Stats) bool { return s.Owned == want })
		r.stopStage(t)
		if n, err := store.PartitionsOf(t.Context(), b.js, c.Job); err != nil || int64(n) != want {
			t.Errorf("the job has %d partitions (%v), want %d", n, err, want)
		}
	}
	owns(quickConfig("stated", 70), 70)
	owns(quickConfig("stated", 0), 70)
	refused := func(c pipeline.Config, says ...string) {
		t.Helper()
		mentions(t, (&pipeline.Worker{Job: pipeline.Job{Config: c, Model: m, NewEngine: pipelinetest.Generic, Dial: b.dialServer}}).Run(t.Context()), says...)
	}
	refused(quickConfig("stated", 16), "partition(70,1)", "partition(16,1)", "resize the job")
	many := quickConfig("stated", 0)
	many.Shards = 71
	refused(many, "Shards is 71, want at most 70")

	fresh := quickConfig("fresh", 0)
	fresh.InputSubject = "fresh.*"
	owns(fresh, int64(pipeline.Defaults().Partitions))
	machine := quickConfig("machine", 0)
	machine.InputSubject = "machine.*"
	if _, err := pipeline.Ensure(t.Context(), b.js, machine, pipeline.EmbeddedPartitions, b.log); err != nil {
		t.Fatal(err)
	}
	owns(machine, pipeline.EmbeddedPartitions)
}

// With several creating workers, the first decides the number of partitions if other
// workers leave the number open.
func TestPartitionsOfTheQuickest(t *testing.T) {
	b := newRig(t)
	for round := range 5 {
		var wg sync.WaitGroup
		begin := make(chan struct{})
		got := make([]int, 6)
		for i := range got {
			wg.Go(func() {
				<-begin
				c, err := pipeline.Ensure(t.Context(), b.js, pipeline.Config{Job: fmt.Sprint("job", round), InputSubject: fmt.Sprintf("in%d.*", round), Shards: 1}, 3+i, b.log)
				if err != nil {
					t.Errorf("round %d: %v", round, err)
				}
				got[i] = c.Partitions
			})
		}
		close(begin)
		wg.Wait()
		for _, n := range got {
			if n != got[0] || n < 3 {
				t.Fatalf("round %d: workers see %v partitions of one job", round, got)
			}
		}
	}
}
