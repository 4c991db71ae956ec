package explain

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// TestSharesOfOneFeature: a readout with one feature has its whole score from this feature: its
// kind, its member and the member's channels. The state's words name the feature.
func TestSharesOfOneFeature(t *testing.T) {
	m := pipelinetest.Bank(t, 3, 7, 3, reservoir.Policy{Kind: reservoir.Marked})
	for r := range m.Network.Members { // inputs are the channels x and y, and their differences
		m.Network.Members[r].Inputs = [][]int32{{0, 2}, {1, 3}, {0, 1}}[r]
		m.Network.Members[r].Input = m.Network.Members[r].Input[:2*m.Network.Spec.Units]
	}
	layout := engine.LayoutOf(m.Network.Spec)
	e, err := cpu.New(m.Network, 1, cpu.Options{Kind: cpu.Generic})
	if err != nil {
		t.Fatal(err)
	}
	spec := m.Network.Spec
	if err := e.Advance([]float32{.1, .2, -.3, .4, .5, -.6}, []reservoir.Run{{Reset: true, To: 3}}, nil); err != nil {
		t.Fatal(err)
	}
	row, features := make([]uint32, layout.Words), make([]float32, spec.FeatureCount())
	if err := e.ReadState(0, row); err != nil {
		t.Fatal(err)
	}
	if err := e.Features(0, features); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		member, unit int
		reads        string
	}{{0, 3, "x"}, {1, 0, "y"}, {2, 11, "x, y"}} {
		h := math.Float32frombits(row[layout.Member(want.member)+layout.State+want.unit])
		j := slices.Index(features, h)
		l := &readout.Linear{
			Name: "one", Classes: []string{"a", "b", "c"}, Intercept: []float32{0, 0, .25}, Center: make([]float32, len(features)), Weights: make([]float32, 3*len(features)),
		}
		l.Center[j] = h - 2 // the distance is nearly 2
		l.Limit = slices.Repeat([]float32{1.5}, len(features))
		l.Weights[j] = 1
		s := (&predictionModel{job: pipeline.Job{Model: m}, linear: l}).explainScore(&candidate{features: features}, 2)
		last, read := s.Kinds[0], s.Channels[0]
		if s.Class != "a" || s.RunnerUp != "c" || s.Score.Difference != 1.25 || s.Bias.Difference != -.25 || s.Limited < 1 {
			t.Errorf("%+v", s)
		}
		if last.What != "last" || last.Difference != 1.5 || last.Class != 1.5 || s.Kinds[1].Difference != 0 || read.What != want.reads || read.Difference != 1.5 || s.Channels[1].Difference != 0 {
			t.Errorf("kinds %+v, channels %+v, want last and %q", s.Kinds, s.Channels, want.reads)
		}
		if f := s.Strong[0]; f.Member != want.member || f.Unit != want.unit || f.Kind != "last" || f.Value != h || !f.Limited || s.Members[want.member].Difference != 1.5 || len(s.Strong) != 2 {
			t.Errorf("strongest %+v, want %+v", f, want)
		}
	}
}

// TestHold: with a held channel, the scores are those of samples with the channel's mean; a
// sequence with other scores is not explained.
func TestHold(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	x := []float32{.1, .2, -.3, .4, .5, -.6, .2, .2}
	of := func(x []float32) []float32 {
		engine, err := cpu.New(m.Network, 1, cpu.Options{Kind: cpu.Generic})
		if err != nil {
			t.Fatal(err)
		}
		scores := make([]float32, 3)
		if err := errors.Join(engine.SetReadouts(m.Readouts), engine.Advance(x, []reservoir.Run{{Emit: true, To: 4}}, scores)); err != nil {
			t.Fatal(err)
		}
		return scores
	}
	now := of(x)
	with := &predictionModel{job: pipeline.Job{Model: m, NewEngine: pipelinetest.Generic}, linear: m.Readouts[0]}
	q := &replay.Sequence{Whole: true}
	q.Kept.X = x
	p, class, other := newPair(m.Readouts[0], now)
	s := &Score{pair: p}
	s.Score.addScores(float64(now[class]), float64(now[other]))
	all, parts, why, err := with.holdChannels(t.Context(), q, s, now, 3)
	if err != nil || why != "" || len(all) != 2 || len(parts) != 2 {
		t.Fatalf("%+v, %+v, %q, %v", all, parts, why, err)
	}
	at := 0
	for _, part := range parts {
		// each channel, then both
		for c, change := range append(slices.Clone(part.Channels), part.Change) {
			held := slices.Clone(x)
			for i := 2 * part.From; i < 2*part.To; i++ {
				if c == 2 || i%2 == c {
					held[i] = m.Network.Norm.Mean[i%2]
				}
			}
			scores := of(held)
			want := float64(scores[class]) - float64(scores[other]) - s.Score.Difference
			if change != want || c == 2 && part.Class != m.Readouts[0].Classes[m.Readouts[0].Class(scores)] {
				t.Errorf("samples %d to %d, channel %d: %v (%+v), want %v", part.From, part.To, c, change, part, want)
			}
		}
		if part.From != at || part.To != at+2 || len(part.Channels) != 2 {
			t.Errorf("%+v after sample %d", part, at)
		}
		at = part.To
	}
	if at != 4 {
		t.Errorf("stretches end with sample %d, want 4", at)
	}
	for c, h := range all {
		held := slices.Clone(x)
		for i := c; i < len(held); i += 2 {
			held[i] = m.Network.Norm.Mean[c]
		}
		scores := of(held)
		want := float64(scores[class]) - float64(scores[other])
		if h.Channel != m.Channels[c] || h.Difference != want || h.Change != want-s.Score.Difference || h.Class != m.Readouts[0].Classes[m.Readouts[0].Class(scores)] {
			t.Errorf("%+v, want a difference of %v", h, want)
		}
	}
	if all, _, why, err = with.holdChannels(t.Context(), q, s, of(slices.Repeat([]float32{1}, 8)), 3); err != nil || len(all) > 0 || why == "" {
		t.Errorf("other scores: %+v, %q, %v", all, why, err)
	}
}

// TestEvenly: stretches have about equal lengths, at most the requested number, and cover the
// samples.
func TestEvenly(t *testing.T) {
	for samples := 1; samples < 300; samples++ {
		for most := 1; most < 30; most++ {
			ends := divideEvenly(samples, most)
			if ends[0] != 0 || ends[len(ends)-1] != samples || len(ends) > most+1 {
				t.Fatalf("%d samples in at most %d parts: %v", samples, most, ends)
			}
			shortest, longest := samples, 0
			for k, to := range ends[1:] {
				shortest, longest = min(shortest, to-ends[k]), max(longest, to-ends[k])
			}
			if shortest < 1 || longest > shortest+1 {
				t.Fatalf("%d samples in at most %d parts: %d to %d long", samples, most, shortest, longest)
			}
		}
	}
}

// TestOpenNumber: an open sequence has the prediction of its number or class.
func TestOpenNumber(t *testing.T) {
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	l := m.Readouts[0]
	features := pipelinetest.Noise(rand.New(rand.NewPCG(1, 2)), l.Features())
	var statistics []float32
	take := func() OpenSequence {
		var o OpenSequence
		o.setAnswer(l, features, statistics)
		return o
	}
	l.Intercept[0] = -100 // class 0
	if o := take(); o.Class != "c0" || o.Score != -o.Scores[0] || o.Score <= 0 {
		t.Errorf("of classes: %+v", o)
	}
	l.Classes, l.Interval = []string{"wear"}, &readout.Interval{Level: .9, Low: -1, High: 1}
	if o := take(); o.Class != "wear" || o.Score != o.Scores[0] || o.Score >= 0 || o.Probability != 0 {
		t.Errorf("a number: %+v", o)
	}
	before := take().Score
	l.Random, statistics = &readout.RandomFeatures{Center: []float32{1}, Weights: []float32{50}, Bias: []float32{0}, Out: []float32{3}}, []float32{2}
	if o := take(); o.Score != o.Scores[0] || o.Score != before+3 { // of one saturated unit
		t.Errorf("with random features: %+v, want 3 above %v", o, before)
	}
}
