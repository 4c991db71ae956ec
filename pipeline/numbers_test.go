package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// regressions returns a model with two readouts of one number, test and b.
func regressions(t testing.TB, policy reservoir.Policy) *reservoir.Model {
	t.Helper()
	m := pipelinetest.Model(t, 2, policy) // of one column
	m.Readouts[0].Classes, m.Readouts[0].Interval = []string{"wear"}, &readout.Interval{Level: .9, Low: -1.25, High: 2}
	second := *m.Readouts[0]
	second.Name, second.Interval = "b", &readout.Interval{Level: .8, Low: -.5, High: .25}
	second.Weights = pipelinetest.Noise(rand.New(rand.NewPCG(5, 6)), len(second.Weights))
	m.Readouts = append(m.Readouts, &second)
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	return m
}

// Regression through crashes, restarts and a promotion: each number is its score, with
// the interval of the named readout. A promotion changes neither numbers into classes
// nor one number into another.
func TestNumbersThroughCrashes(t *testing.T) {
	t.Parallel()
	m := regressions(t, reservoir.Policy{Kind: reservoir.Marked, Early: 3})
	b := newRig(t)
	c := quickConfig("numbers", 2)
	rng := rand.New(rand.NewPCG(3, 9))
	const keys = 5
	sent, seqs := map[string][]pipelinetest.Packet{}, map[string]uint64{}
	more := func() {
		for range 3 * keys {
			key := fmt.Sprint("k", rng.IntN(keys))
			seqs[key]++
			p := pipelinetest.One(key, seqs[key], 2, rng.Float32(), rng.IntN(4) == 0)
			sent[key] = append(sent[key], p)
			b.publishPackets([]pipelinetest.Packet{p})
		}
	}
	r := b.startStage(m, c)
	more()
	r.crashStage(t)
	b.expireMembers("numbers")
	r = b.startStage(m, c)
	more()
	classes := severalReadouts(t, m.Policy)
	wrong := map[string]string{"predicts a number and the other classes": b.publishReadout("numbers", classes, "b")}
	other := *m.Readouts[1]
	other.Name, other.Classes = "temperature", []string{"temperature"}
	m.Readouts = append(m.Readouts, &other)
	wrong["its classes are"] = b.publishReadout("numbers", m, "temperature")
	m.Readouts = m.Readouts[:2]
	for want, fingerprint := range wrong {
		_, err := operate.Promote(t.Context(), b.js, "numbers", operate.PromoteOptions{Readout: fingerprint, Who: "a"})
		pipelinetest.Mentions(t, err, want, "start a new job")
	}
	if _, err := operate.Promote(t.Context(), b.js, "numbers", operate.PromoteOptions{Readout: b.publishReadout("numbers", m, "b"), Who: "a"}); err != nil {
		t.Fatal(err)
	}
	b.awaitTaken("numbers")
	more()
	r.stopStage(t)
	r = b.startStage(m, c)
	more()

	readouts, alones, want := byName(t, m), map[string]map[string][]codec.Prediction{}, 0
	for name, l := range readouts {
		alones[name] = map[string][]codec.Prediction{}
		want = 0
		for key, packets := range sent {
			alones[name][key] = predictAlone(t, withReadout(m, l), codec.Reject, packets...)
			want += len(alones[name][key])
		}
	}
	got := nameReadouts(t, m, b.awaitPredictions("numbers", want))
	r.waitUntil(t, "all input", func(s pipeline.Stats) bool { return s.Lag == 0 })
	r.stopStage(t)
	checkReadouts(t, m, got, alones)
	for key, ps := range got {
		for i, p := range ps {
			v := readouts[p.Readout].Interval
			value := p.Score
			if n := (outcome.Number{Value: value, Low: value + v.Low, High: value + v.High, Known: true}); p.Number != n || len(p.Scores) > 0 && p.Scores[0] != value || p.Class != 0 || p.Probability != 0 {
				t.Fatalf("stream %s, prediction %d: %+v, want %+v", key, i, p, n)
			}
		}
	}
	for p := range 2 {
		s := &pipeline.Worker{Job: pipeline.Job{Config: c, Model: m, NewEngine: pipelinetest.Generic, Dial: b.dialServer}}
		if v, err := replay.Verify(t.Context(), b.js, &s.Job, p); err != nil || v.Digest != v.Recorded {
			t.Errorf("partition %d: %+v, %v", p, v, err)
		}
	}
}
