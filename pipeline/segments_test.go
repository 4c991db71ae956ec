package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/classify"
)

// Predictions from segments through crashes, with messages that end within segments, have the
// bits of the library.
func TestSegmentsThroughCrashes(t *testing.T) {
	t.Parallel()
	const length, rows, keys, messages = 8, 3, 4, 12
	m := pipelinetest.Segmented(pipelinetest.Ranged(pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Count, Length: length})))
	b := newRig(t)
	c := quickConfig("segments", 2)
	rng := rand.New(rand.NewPCG(3, 10))
	sent, want := map[string][]float32{}, 0
	r := b.startStage(m, c)
	for seq := range uint64(messages) {
		for k := range keys {
			p := pipelinetest.One(fmt.Sprint("k", k), seq+1, rows, 0, false)
			p.Batch.X = pipelinetest.Noise(rng, 2*rows)
			before := len(sent[p.Key]) / 2 / length
			sent[p.Key] = append(sent[p.Key], p.Batch.X...)
			want += len(sent[p.Key])/2/length - before
			b.publishPackets([]pipelinetest.Packet{p})
		}
		if seq%4 == 3 {
			r.crashStage(t)
			b.expireMembers("segments")
			r = b.startStage(m, c)
		}
	}
	got := b.awaitPredictions("segments", want)
	r.waitUntil(t, "all input", func(s pipeline.Stats) bool { return s.Lag == 0 })
	r.stopStage(t)
	for key, x := range sent {
		s, err := classify.NewStream(m)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range got[key] {
			if err := s.Step(x[2*length*i : 2*length*(i+1)]...); err != nil {
				t.Fatal(err)
			}
			if a := s.Answer(); a.Class != p.Class || a.Score != p.Score || a.Probability != p.Probability {
				t.Fatalf("stream %s, prediction %d: class %d, score %v, probability %v, the library has %d, %v, %v", key, i, p.Class, p.Score, p.Probability, a.Class, a.Score, a.Probability)
			}
			s.Reset()
		}
		if n := len(x) / 2 / length; len(got[key]) != n {
			t.Errorf("stream %s: %d predictions, want %d", key, len(got[key]), n)
		}
	}
}
