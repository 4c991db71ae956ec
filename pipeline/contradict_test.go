package pipeline_test

import (
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// A repeated number with other content is reported, once per key, and counted
// separately; a plain repeat is not.
func TestNumberWithOtherContent(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b, book := newLoggedRig(t)
	c := quickConfig("twice", 1)
	r := b.startStage(m, c)
	b.publishPackets([]pipelinetest.Packet{
		pipelinetest.One("a", 1, 2, 1, false), pipelinetest.One("a", 1, 2, 1, false), // a repeat
		pipelinetest.One("a", 1, 2, 9, false), pipelinetest.One("a", 1, 2, 8, false), // another producer
		pipelinetest.One("a", 2, 2, 2, true), pipelinetest.One("a", 1, 2, 9, false), // not the last any more: not known
		pipelinetest.One("a", 4, 2, 4, false), pipelinetest.One("a", 4, 2, 4, false), pipelinetest.One("a", 4, 2, 5, false), // a held message
		pipelinetest.One("a", 3, 2, 3, false), pipelinetest.One("a", 4, 2, 6, true), // used when its turn came
	})
	b.settleMessages(r, 11)
	s := r.counters.Stats()
	if s.Duplicates != 7 || s.Contradictions != 4 {
		t.Errorf("%d duplicates, %d contradictions, want 7 and 4", s.Duplicates, s.Contradictions)
	}
	if n := book.Lines("was used again with other content"); n != 1 {
		t.Errorf("told %d times, want once for the key", n)
	}
	r.stopStage(t)
	r = b.startStage(m, c) // the content of the message is no longer known
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", 4, 2, 7, false), pipelinetest.One("a", 5, 2, 5, true), pipelinetest.One("a", 5, 2, 6, true)})
	r.waitUntil(t, "both", func(s pipeline.Stats) bool { return s.Duplicates == 2 })
	if s := r.counters.Stats(); s.Contradictions != 1 {
		t.Errorf("after a restart: %d contradictions, want 1", s.Contradictions)
	}
	r.stopStage(t)
	if got := b.readPredictions(c.Job)["a"]; len(got) != 2 {
		t.Errorf("%d predictions, want 2", len(got))
	}
}
