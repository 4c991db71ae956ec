package kernel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// BenchmarkSteps reports the step kernels' share of the peak of fused
// multiply-adds, counting 2 N (N + X) operations a sample and lane: medians of
// bursts of some 50 µs, in turn with bursts of the peak's loop, so that both
// see the same neighbors; and the best burst's share.
func BenchmarkSteps(b *testing.B) {
	for _, s := range Levels() {
		for _, lanes := range []int{s.Wide.Lanes, s.Narrow.Lanes, 1} {
			for _, c := range []struct{ units, inputs, flags int }{{100, 6, 0}, {200, 1, 0}, {50, 3, 0}, {50, 4, Sum | Positive | Max | Square}} {
				b.Run(fmt.Sprintf("%s/lanes=%d/N=%d,X=%d,flags=%d", s.Name, lanes, c.units, c.inputs, c.flags), func(b *testing.B) {
					benchSteps(b, s, lanes, c.units, c.inputs, c.flags)
				})
			}
		}
	}
}

func benchSteps(b *testing.B, s *Set, lanes, units, inputs, flags int) {
	rng := rand.New(rand.NewPCG(1, 1))
	scaled := func(n int, by float32) []float32 {
		v := random(rng, make([]float32, n))
		for i := range v {
			v[i] *= by
		}
		return v
	}
	m := s.Pack(units, inputs, scaled(units, .5), scaled(units*inputs, .5), scaled(units*units, .05), false)
	room := (units+inputs+64)*lanes + 64
	cur, next, sums := Aligned(room), Aligned(room), Aligned(Kinds*(units+64)*lanes)
	pending := Aligned(2 * PendingRoom)
	flops := 2 * float64(lanes*units*(units+inputs))
	count := max(1, int(5e6/flops))
	x := Aligned(count * inputs * lanes)
	copy(x, random(rng, make([]float32, len(x))))
	offsets := make([]int, inputs)
	for i := range offsets {
		offsets[i] = 4 * lanes * i
	}
	first := inputs * lanes
	if lanes == 1 {
		first = (inputs + 15) / 16 * 16
	}
	a := Steps{Consts: Consts(), Select: &offsets[0], Selected: inputs, Depth: inputs + units, Units: units, Flags: flags, Gain: .01, Keep: 1,
		InputStep: 4 * inputs * lanes}
	if flags != 0 {
		a.Sums = &sums[0]
	}
	s.Use(&a, &m, lanes)
	kernel := s.Single
	switch lanes {
	case s.Wide.Lanes:
		kernel = s.Wide.Steps
	case s.Narrow.Lanes:
		kernel = s.Narrow.Steps
	}
	flops *= float64(count)
	var shares []float64
	for b.Loop() {
		a.Cur, a.Next = &cur[first-inputs*lanes], &next[first-inputs*lanes]
		a.CurState, a.NextState = &cur[first], &next[first]
		a.Pending, a.Spare = &pending[0], &pending[PendingRoom]
		a.Inputs, a.Count = Address(x), count
		start := time.Now()
		kernel(&a)
		middle := time.Now()
		done := s.Peak(flops)
		end := time.Now()
		shares = append(shares, flops/float64(middle.Sub(start))/(done/float64(end.Sub(middle))))
	}
	slices.Sort(shares)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(100*shares[len(shares)/2], "%peak")
	b.ReportMetric(100*shares[len(shares)*19/20], "%peak-p95")
}
