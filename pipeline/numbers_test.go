package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/classify"
)

// regressions returns a model with two readouts of one number, test and b; random adds
// random features to both.
func regressions(t testing.TB, policy reservoir.Policy, random bool) *reservoir.Model {
	t.Helper()
	m := pipelinetest.Model(t, 2, policy) // of one column
	m.Readouts[0].Classes, m.Readouts[0].Interval = []string{"wear"}, &readout.Interval{Level: .9, Low: -1.25, High: 2}
	second := *m.Readouts[0]
	second.Name, second.Interval = "b", &readout.Interval{Level: .8, Low: -.5, High: .25}
	second.Weights = pipelinetest.Noise(rand.New(rand.NewPCG(5, 6)), len(second.Weights))
	m.Readouts = append(m.Readouts, &second)
	if random {
		m.Front = &reservoir.Front{Means: []int{2, 5}, Fill: m.Network.Norm.Mean}
		for i, l := range m.Readouts {
			rng := rand.New(rand.NewPCG(7, uint64(i)))
			l.Random = &readout.RandomFeatures{Center: pipelinetest.Noise(rng, 4), Weights: pipelinetest.Noise(rng, 4*20), Bias: pipelinetest.Noise(rng, 20), Out: pipelinetest.Noise(rng, 20)}
		}
	}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	return m
}

// Regression through crashes, restarts and a promotion: each number is its score, with
// the interval of the named readout. A promotion changes neither numbers into classes
// nor one number into another. Random features have the same bits in the library.
func TestNumbersThroughCrashes(t *testing.T) {
	t.Parallel()
	t.Run("network", func(t *testing.T) { checkNumbers(t, false) })
	t.Run("random features", func(t *testing.T) { checkNumbers(t, true) })
}

func checkNumbers(t *testing.T, random bool) {
	m := regressions(t, reservoir.Policy{Kind: reservoir.Marked, Early: 3}, random)
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
	classes.Front = m.Front
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
	checkInLibrary(t, m, sent, got)
	for p := range 2 {
		s := &pipeline.Worker{Job: pipeline.Job{Config: c, Model: m, NewEngine: pipelinetest.Generic, Dial: b.dialServer}}
		if v, err := replay.Verify(t.Context(), b.js, &s.Job, p); err != nil || v.Digest != v.Recorded {
			t.Errorf("partition %d: %+v, %v", p, v, err)
		}
	}
}

// checkInLibrary compares the predictions at the ends of sequences with those of the library
// for the samples of these sequences.
func checkInLibrary(t *testing.T, m *reservoir.Model, sent map[string][]pipelinetest.Packet, got map[string][]codec.Prediction) {
	t.Helper()
	compared := 0
	for key, packets := range sent {
		streams := map[string]*classify.Stream{}
		for name, l := range byName(t, m) {
			s, err := classify.NewStream(withReadout(m, l))
			if err != nil {
				t.Fatal(err)
			}
			streams[name] = s
		}
		ends := slices.DeleteFunc(slices.Clone(got[key]), func(p codec.Prediction) bool { return p.Flags&outcome.FlagEarly != 0 })
		for _, packet := range packets {
			for _, s := range streams {
				if err := s.Step(packet.Batch.X...); err != nil {
					t.Fatal(err)
				}
			}
			if len(packet.Header) == 0 { // the sequence continues
				continue
			}
			if a := streams[ends[0].Readout].Answer(); a.Number != ends[0].Number {
				t.Fatalf("stream %s: %+v, the library predicts %+v", key, ends[0].Number, a.Number)
			}
			for _, s := range streams {
				s.Reset()
			}
			ends, compared = ends[1:], compared+1
		}
		if len(ends) > 0 {
			t.Errorf("stream %s: %d predictions too many", key, len(ends))
		}
	}
	if compared < 5 {
		t.Errorf("%d predictions compared: the test has lost its subject", compared)
	}
}
