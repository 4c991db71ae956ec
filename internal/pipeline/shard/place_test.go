package shard

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Messages of all kinds, in batches that alternate as in a stage, give the same result
// as in a separate batch without a decoding buffer; and a batch passed on is not
// modified.
func TestBatchesInTurn(t *testing.T) {
	for _, policy := range []reservoir.Policy{{Kind: reservoir.Count, Length: 7}, {Kind: reservoir.Window, Length: 6, Hop: 2}} {
		m := pipelinetest.Model(t, 3, policy)
		c := Config{NonFinite: codec.Hold, Reorder: 2, RowBudget: 1 << 20, MaxSlots: 200}
		rng := rand.New(rand.NewPCG(3, 14))
		l, alone := newLone(t, m, c), newLone(t, m, c)
		turns := []*Batch{NewBatch(1), NewBatch(1), NewBatch(1)}
		handed := make([][]float32, len(turns)) // the engine's input
		var got, want []codec.Prediction
		keep := func(to []codec.Prediction, b *Batch) []codec.Prediction {
			for _, p := range b.Answers[0].Preds {
				p.Scores, p.Inputs = slices.Clone(p.Scores), slices.Clone(p.Inputs)
				to = append(to, p)
			}
			return to
		}
		number := uint64(0)
		dead, copied, placed := 0, 0, 0
		for turn := range 300 {
			b := turns[turn%len(turns)]
			if !pipelinetest.SameBits(b.Fx.X, handed[turn%len(turns)]) {
				t.Fatalf("turn %d: samples of a batch that was handed on have changed", turn)
			}
			b.Reset()
			for range 1 + rng.IntN(6) {
				p := pipelinetest.Packet{Key: "k", Header: map[string]string{}}
				p.Batch.Rows = 1 + rng.IntN(20)
				p.Batch.X = make([]float32, 2*p.Batch.Rows)
				for i := range p.Batch.X {
					p.Batch.X[i] = rng.Float32()
					if rng.IntN(30) == 0 {
						p.Batch.X[i] = float32(math.NaN())
					}
				}
				switch rng.IntN(8) {
				case 0, 1: // many streams
					p.Key, p.Batch.Keys = "g", []string{"a", "b", "c"}
					for i := range p.Batch.Rows {
						p.Batch.Key = append(p.Batch.Key, int32(min(i, rng.IntN(3))))
					}
					p.Batch.Keys = p.Batch.Keys[:1+slices.Max(p.Batch.Key)]
				case 2: // a dead letter, detected after the samples were decoded in place
					p.Batch.X[len(p.Batch.X)-1] = 2 * reservoir.MaxInput
				case 3: // no samples
					p.Batch.Rows, p.Batch.X, p.Header[wire.HeaderEnd] = 0, nil, "true"
				case 4: // nothing at all
					p.Raw = []byte{}
				case 5: // with numbers, some too early
					number++
					p.Key, p.Seq = "s", number+uint64(rng.IntN(3))
				default:
					p.Key = fmt.Sprint("k", rng.IntN(3))
				}
				j := l.jobOf(p)
				from := len(b.Fx.X)
				if err := l.takeJob(b, j); err != nil {
					t.Fatal(err)
				}
				if len(b.Fx.X) > from && len(l.Machine.DecodedMessage().Keys) == 0 {
					if &l.Machine.DecodedMessage().X[len(l.Machine.DecodedMessage().X)-1] == &b.Fx.X[len(b.Fx.X)-1] {
						placed++
					} else {
						copied++
					}
				}
				j.Part = alone.p
				own := NewBatch(1)
				if err := alone.takeJob(own, j); err != nil {
					t.Fatal(err)
				}
				if err := alone.AdvanceBatch(own); err != nil {
					t.Fatal(err)
				}
				want, dead = keep(want, own), dead+len(own.Dead)
			}
			if err := l.AdvanceBatch(b); err != nil {
				t.Fatal(err)
			}
			got, handed[turn%len(turns)] = keep(got, b), slices.Clone(b.Fx.X)
		}
		if len(got) != len(want) || len(got) < 100 || dead < 50 || placed < 100 || copied < 20 {
			t.Fatalf("%s: %d predictions, want %d; %d dead letters, %d messages in place, %d copied: the test has lost its subject", policy.Kind, len(got), len(want), dead, placed, copied)
		}
		for i := range got {
			g, w := got[i], want[i]
			if g.Stream != w.Stream || g.Seq != w.Seq || g.Row != w.Row || g.Flags != w.Flags || !pipelinetest.SameBits(g.Scores, w.Scores) {
				t.Fatalf("%s: prediction %d: %+v, want %+v", policy.Kind, i, g, w)
			}
		}
	}
}

// A message of one stream after a message of many streams is decoded into a separate,
// reused buffer.
func TestSamplesBesideAllocate(t *testing.T) {
	l := newLone(t, pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked}), Config{})
	values := make([]float32, 2*256)
	for i := range values {
		values[i] = float32(i) / 512
	}
	many := l.jobOf(pipelinetest.Packet{Key: "g", Batch: codec.Batch{Rows: 1, X: []float32{1, 2}, Keys: []string{"a"}, Key: []int32{0}}})
	one := l.jobOf(pipelinetest.Rows("s", 0, false, values...))
	step := func() {
		l.b.Reset()
		for _, j := range []Job{many, one} {
			l.next++
			j.Msg.Seq = l.next
			if err := l.takeJob(l.b, j); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.AdvanceBatch(l.b); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		step()
	}
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("%v allocations for a message of many streams and a longer one of one, want 0", n)
	}
	if len(l.b.Fx.X) != 2+len(values) {
		t.Errorf("%d values in the batch, want %d", len(l.b.Fx.X), 2+len(values))
	}
}
