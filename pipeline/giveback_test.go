package pipeline_test

import (
	"context"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// A worker stopped at any time, also during a claim or a restore, releases its claims
// and changes no state.
func TestStopWhileClaiming(t *testing.T) {
	t.Parallel()
	b := newRig(t)
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	streams := pipelinetest.Recordings(12, 40)
	packets, sent := pipelinetest.Mixed(streams, 4)
	c := quickConfig("hasty", 6)
	c.StopTimeout = patience
	r := b.startStage(m, c)
	b.publishPackets(packets)
	b.awaitPredictions(c.Job, count(direct(t, m, streams, sent)))
	r.stopStage(t)
	var want [6]wire.Record
	for p := range want {
		if _, want[p] = b.lastRecord(c.Job, p); want[p].Kind != wire.KindReleased {
			t.Fatalf("partition %d ended with %q", p, want[p].Kind)
		}
	}
	claimed := 0
	for i, end := 0, time.Now().Add(patience); i < 40 || claimed == 0 && time.Now().Before(end); i++ {
		after := time.Duration(i) * time.Millisecond
		if i >= 40 { // on a loaded machine, earlier stops came before a claim
			after *= 5
		}
		ctx, cancel := context.WithTimeout(t.Context(), after)
		s := &pipeline.Worker{Job: pipeline.Job{Config: c, Model: m, NewEngine: pipelinetest.Generic, Log: b.log, Dial: b.dialServer}}
		s.SetKeep(0, b.now)
		_ = s.Run(ctx) // stopped before it had begun, or after
		cancel()
		for p := range want {
			_, got := b.lastRecord(c.Job, p)
			if got.Epoch > want[p].Epoch {
				claimed++
			}
			want[p].Epoch, want[p].Worker = got.Epoch, got.Worker
			if got != want[p] {
				t.Fatalf("stopped after %v: partition %d ended as %+v, want %+v", after, p, got, want[p])
			}
		}
	}
	if claimed == 0 {
		t.Error("no stop met a claim: the test shows nothing")
	}
}
