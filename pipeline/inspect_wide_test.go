package pipeline_test

import (
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// The state of an idle job between two sequences is smaller than one row: with the
// default bank by a factor of twenty. The job can still be inspected, moved and
// continued.
func TestStatesAtRestOfAWideNetwork(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	spec := m.Network.Spec
	spec.Units = 700
	net, err := reservoir.Draw(spec)
	if err != nil {
		t.Fatal(err)
	}
	f := spec.FeatureCount()
	m.Network, m.Readouts = net, []*readout.Linear{{Name: "wide", Classes: []string{"a", "b"}, Center: make([]float32, f), Weights: make([]float32, f), Intercept: make([]float32, 1)}}
	b := newRig(t)
	c := quickConfig("rest", 1)
	b.answerPackets(m, c, []pipelinetest.Packet{pipelinetest.One("a", 1, 3, 1, true), pipelinetest.One("b", 1, 3, 2, true)}, 2)
	raw, err := operate.Snapshot(t.Context(), b.js, c.Job, 0)
	if err != nil {
		t.Fatal(err)
	}
	if words := engine.LayoutOf(spec).Words; words < len(raw) {
		t.Fatalf("rows of %d words, a snapshot of %d bytes: the test has lost its subject", words, len(raw))
	}
	s, err := admin.ReadState(raw)
	if err != nil || len(s.Streams) != 2 || s.Streams[0].LastSeq != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	heir := pipeline.Config{Job: "heir", InputSubject: "other.*", Partitions: 1}
	if err := operate.Import(t.Context(), b.js, heir, raw); err != nil {
		t.Fatal(err)
	}
	heir.Lease, heir.StopTimeout = c.Lease, c.StopTimeout
	r := b.startStage(m, heir)
	b.publishOn("other.", pipelinetest.One("a", 1, 3, 1, true), pipelinetest.One("a", 2, 3, 1, true)) // a repeat, and the next
	b.settleMessages(r, 2)
	r.stopStage(t)
	if n := r.counters.Stats().Duplicates; n != 1 {
		t.Errorf("%d repeats, want 1: the numbers came along", n)
	}
}
