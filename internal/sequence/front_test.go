package sequence

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/testing/sequencetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// For any split of a stream, the input of each prediction equals the output of the front
// end for the sequence by itself; for overlapping windows, for the stream.
func TestFrontIsTheDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 9))
	fronts := []reservoir.Front{{Normalize: 5}, {Decimate: 2}, {Center: 3, Envelope: 2, Decimate: 4}, {Smooth: 4}, {Means: []int{2, 5}}, {Decimate: 2, Means: []int{3}}}
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
			got, statistics := transformed(&f, p, x, times, ends, split(rng, n, true))
			want := sequencetest.Spans(p, times, ends, false)
			if len(got) != len(want) {
				t.Fatalf("policy %+v: %d predictions, want %d", p, len(got), len(want))
			}
			for i, sp := range want {
				begin := sp.From
				if p.Kind == reservoir.Window {
					begin = 0
				}
				y, state, like := slices.Clone(x[2*begin:2*sp.To]), make([]float64, f.StateSize(2)), make([]float32, f.StatisticsSize(2))
				y = y[:2*f.Run(state, 0, y, 2)]
				if f.Statistics(like, state, 2); !slices.Equal(statistics[i], like) {
					t.Fatalf("policy %+v, front end %+v, prediction %d of [%d, %d): statistics %v, want %v", p, f, i, sp.From, sp.To, statistics[i], like)
				}
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
func transformed(f *reservoir.Front, p reservoir.Policy, x []float32, times []int64, ends []bool, pieces []int) (seen, statistics [][]float32) {
	var q Sequencer
	front := NewFront(f, p, 2)
	state := make([]float64, front.StateSize())
	open := make([][]float32, p.States())
	at := 0
	for _, n := range pieces {
		before, y := q.N, slices.Clone(x[2*at:2*(at+n)])
		cuts := q.Cut(nil, &p, Samples{Count: n, Times: times[at : at+n], Ends: ends[at : at+n]})
		front.Run(state, before, cuts, y)
		for i, c := range cuts {
			if c.Reset {
				open[c.Phase] = nil
			}
			open[c.Phase] = append(open[c.Phase], y[2*front.RowsBefore(c.From):2*front.RowsBefore(c.To)]...)
			if c.Emit {
				seen = append(seen, slices.Clone(open[c.Phase]))
				statistics = append(statistics, slices.Clone(front.Statistics(i)))
			}
		}
		at += n
	}
	return seen, statistics
}

// Without a front end every sample is unchanged.
func TestNoFront(t *testing.T) {
	f := NewFront(nil, reservoir.Policy{Kind: reservoir.Marked}, 2)
	if f.StateSize() != 0 || f.Place(3, nil, 7) != 7 || f.RowsBefore(5) != 5 {
		t.Errorf("%d numbers of state, %d samples of 7, %d before sample 5", f.StateSize(), f.Place(3, nil, 7), f.RowsBefore(5))
	}
}

// Samples that come in pieces give the same bits as all at once, whatever front
// end.
func TestFrontInPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 5))
	for range 200 {
		front := reservoir.Front{Envelope: rng.IntN(4), Smooth: []int{0, 0, 3}[rng.IntN(3)], Decimate: []int{0, 2, 5}[rng.IntN(3)]}
		*[]*int{&front.Center, &front.Normalize}[rng.IntN(2)] = rng.IntN(2) * (2 + rng.IntN(30))
		if front.CheckParts(reservoir.Policy{Kind: reservoir.Marked}) != nil {
			continue
		}
		n := 1 + rng.IntN(150)
		whole, pieces := frontSeries(n), frontSeries(n)
		whole = whole[:3*front.Run(make([]float64, front.StateSize(3)), 0, whole, 3)]
		var got []float32
		state := make([]float64, front.StateSize(3))
		for at := 0; at < n; {
			take := min(n-at, rng.IntN(12))
			x := pieces[3*at : 3*(at+take)]
			got = append(got, x[:3*front.Run(state, int64(at), x, 3)]...)
			at += take
			if int64(len(got)/3) != front.Out(int64(at)) {
				t.Fatalf("%+v: %d samples of %d, want %d", front, len(got)/3, at, front.Out(int64(at)))
			}
			if err := CheckFrontState(state); err != nil {
				t.Fatalf("%+v: after %d samples: %v", front, at, err)
			}
		}
		if !slices.Equal(got, whole) {
			t.Fatalf("%+v: %d samples in pieces give other values", front, n)
		}
	}
}

// Whatever samples an engine takes, what comes out is what an engine takes; the
// most extreme included.
func TestFrontStaysWithinLimits(t *testing.T) {
	x := make([]float32, 4000)
	for i := range x {
		x[i] = []float32{-reservoir.MaxInput, reservoir.MaxInput, 1e-45, 0}[(i/7+i*i)%4]
	}
	for _, front := range []reservoir.Front{{Center: 2}, {Center: reservoir.MaxFront}, {Normalize: 2}, {Normalize: 1000}, {Normalize: reservoir.MaxFront, Envelope: 3}, {Envelope: 1, Decimate: 2}, {Smooth: 7}, {Segments: &reservoir.Segments{Count: 2, Length: 3}}} {
		y := slices.Clone(x)
		state := make([]float64, front.StateSize(1))
		y = y[:front.Run(state, 0, y, 1)]
		if err := engine.CheckInputs(y, 1); err != nil {
			t.Errorf("%+v: %v", front, err)
		}
		if err := CheckFrontState(state); err != nil {
			t.Errorf("%+v: %v", front, err)
		}
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1), -1e41} {
		if err := CheckFrontState([]float64{0, bad}); err == nil || !strings.Contains(err.Error(), "number 1") {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// frontSeries are three channels of different sizes.
func frontSeries(n int) []float32 {
	x := make([]float32, 3*n)
	for i := range n {
		for c, offset := range []float32{0, 9810, -.5} {
			v := (i*i*7919+i*104729*(c+1))%4001 - 2000
			x[3*i+c] = float32(v)/16 + offset
			if c == 2 && i/50%2 == 0 {
				x[3*i+c] = 7.25
			}
			if c == 1 && i >= n/2 {
				x[3*i+c] *= 1e9
			}
		}
	}
	x[0], x[n/3*3], x[n/3*3+3] = 1e15, -1e15, 1e15
	return x
}
