package sequence

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/sequencetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// For any split of a stream, the input of each prediction equals the output of the front
// end for the sequence by itself; for overlapping windows, for the stream.
func TestFrontIsTheDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	fronts := []reservoir.Front{{Normalise: 5}, {Decimate: 2}, {Centre: 3, Envelope: 2, Decimate: 4}}
	compared := 0
	for _, p := range []reservoir.Policy{
		{Kind: reservoir.Marked}, {Kind: reservoir.Marked, Early: 3}, {Kind: reservoir.Count, Length: 8, Early: 3}, {Kind: reservoir.Gap, Gap: 5, Early: 4},
		{Kind: reservoir.Window, Length: 8, Hop: 8}, {Kind: reservoir.Window, Length: 12, Hop: 4, Early: 3}, {Kind: reservoir.Endless, Early: 5},
	} {
		for trial := range 60 {
			f := fronts[trial%len(fronts)]
			if err := f.CheckParts(p); err != nil {
				t.Fatal(err)
			}
			n := rng.IntN(70)
			x, times, ends := make([]float32, 2*n), make([]int64, n), make([]bool, n)
			now := int64(0)
			for i := range n {
				now += 1 + rng.Int64N(7)
				times[i], ends[i] = now, rng.IntN(6) == 0
				x[2*i], x[2*i+1] = rng.Float32(), 100*rng.Float32()
			}
			got := transformed(&f, p, x, times, ends, split(rng, n, true))
			want := sequencetest.Spans(p, times, ends, false)
			if len(got) != len(want) {
				t.Fatalf("policy %+v: %d predictions, want %d", p, len(got), len(want))
			}
			for i, sp := range want {
				begin := sp.From
				if p.Kind == reservoir.Window {
					begin = 0
				}
				y := slices.Clone(x[2*begin : 2*sp.To])
				y = y[:2*f.Run(make([]float64, f.StateSize(2)), 0, y, 2)]
				y = y[2*int(f.Out(int64(sp.From-begin))):]
				if !slices.Equal(got[i], y) {
					t.Fatalf("policy %+v, front end %+v, prediction %d of [%d, %d):\n got %v\nwant %v", p, f, i, sp.From, sp.To, got[i], y)
				}
				compared++
			}
		}
	}
	if compared < 1000 {
		t.Errorf("%d predictions compared: the test has lost its subject", compared)
	}
}

// transformed returns the input of each prediction, from samples in pieces.
func transformed(f *reservoir.Front, p reservoir.Policy, x []float32, times []int64, ends []bool, pieces []int) (seen [][]float32) {
	var q Sequencer
	front := NewFront(f, p, 2)
	state := make([]float64, front.StateSize())
	open := make([][]float32, p.States())
	at := 0
	for _, n := range pieces {
		before, y := q.N, slices.Clone(x[2*at:2*(at+n)])
		cuts := q.Cut(nil, &p, Samples{Count: n, Times: times[at : at+n], Ends: ends[at : at+n]})
		front.Run(state, before, cuts, y)
		for _, c := range cuts {
			if c.Reset {
				open[c.Phase] = nil
			}
			open[c.Phase] = append(open[c.Phase], y[2*front.RowsBefore(c.From):2*front.RowsBefore(c.To)]...)
			if c.Emit {
				seen = append(seen, slices.Clone(open[c.Phase]))
			}
		}
		at += n
	}
	return seen
}

// Without a front end every sample is unchanged.
func TestNoFront(t *testing.T) {
	f := NewFront(nil, reservoir.Policy{Kind: reservoir.Marked}, 2)
	if f.StateSize() != 0 || f.Place(3, nil, 7) != 7 || f.RowsBefore(5) != 5 {
		t.Errorf("%d numbers of state, %d samples of 7, %d before sample 5", f.StateSize(), f.Place(3, nil, 7), f.RowsBefore(5))
	}
}
