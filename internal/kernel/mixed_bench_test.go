package kernel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"
)

// BenchmarkMixed reports the kernels of kind mixed, 15 blocks in turn: nanoseconds
// of a block's sample, and the share of the peak of fused multiply-adds as
// BenchmarkSteps does, counting only the arguments. Medians, and the result of the
// best twentieth of the bursts.
func BenchmarkMixed(b *testing.B) {
	for _, s := range Levels() {
		for _, cubic := range []bool{true, false} {
			k := s.Mixed(cubic)
			if k == nil {
				continue
			}
			activation := map[bool]string{true: "cubic", false: "clip"}[cubic]
			for _, count := range []int{1, 2, 4, 8, 32} {
				b.Run(fmt.Sprintf("%s/taps/%s/inputs=6/count=%d", s.Name, activation, count), func(b *testing.B) { benchMixed(b, s, k.Taps, 6, 1, count) })
				b.Run(fmt.Sprintf("%s/recurrent/%s/inputs=2/count=%d", s.Name, activation, count), func(b *testing.B) { benchMixed(b, s, k.Recurrent, 2, mixedUnits, count) })
			}
		}
	}
}

func benchMixed(b *testing.B, s *Set, run func(*MixedSteps), inputs, others, count int) {
	const blocks = 15
	rng := rand.New(rand.NewPCG(1, 1))
	values := random(rng, Aligned(8*inputs*count))
	calls := make([]MixedSteps, blocks)
	for i := range calls {
		weights, state, bits := random(rng, Aligned(8*mixedUnits*(1+inputs+others))), Aligned(768), Aligned(4)
		for k := range weights {
			weights[k] *= .01
		}
		calls[i] = MixedSteps{
			Weights: &weights[0], Values: &values[0], State: (*uint32)(unsafe.Pointer(&state[0])), Bits: (*uint32)(unsafe.Pointer(&bits[0])),
			Signs: &Aligned(MixedRoom)[0], Held: &Aligned(MixedRoom)[0], Inputs: inputs,
		}
	}
	rounds := max(1, 64/count)
	samples := float64(rounds * blocks * count)
	flops := samples * float64(2*8*mixedUnits*(inputs+others))
	var shares, times []float64
	for b.Loop() {
		start := time.Now()
		for range rounds {
			for i := range calls {
				calls[i].Count, calls[i].Number = count, 1
				run(&calls[i])
			}
		}
		middle := time.Now()
		done := s.Peak(flops)
		end := time.Now()
		shares = append(shares, flops/float64(middle.Sub(start))/(done/float64(end.Sub(middle))))
		times = append(times, float64(middle.Sub(start))/samples)
	}
	slices.Sort(shares)
	slices.Sort(times)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(100*shares[len(shares)/2], "%peak")
	b.ReportMetric(100*shares[len(shares)*19/20], "%peak-p95")
	b.ReportMetric(times[len(times)/2], "ns/sample")
	b.ReportMetric(times[len(times)/20], "ns/sample-p05")
}
