package reservoir

import (
	"fmt"
	"testing"
)

func BenchmarkGeneric(b *testing.B) {
	bank := Spec{Arithmetic: 1, Kind: EuSN, Channels: 2, Members: 40, Units: 50, Seed: 1, Precision: Float32, Difference: true,
		Features: AllFeatures, Eps: Dist{1e-3, 1}, Gamma: Dist{1e-4, 1e-1}, EpsRho: Dist{1e-2, .2}, Input: Dist{.03, 3}, Bias: Dist{.01, 3}}
	single := Spec{Arithmetic: 1, Kind: EuSN, Channels: 6, Members: 1, Units: 100, Seed: 1, Precision: Float32,
		Features: []Feature{Last}, Eps: Fixed(.01), Gamma: Fixed(.001), Recurrent: Fixed(1), Input: Fixed(1), Bias: Fixed(1)}
	for _, s := range []Spec{bank, single} {
		b.Run(fmt.Sprintf("%dx%d,inputs=%d", s.Members, s.Units, s.Inputs()), func(b *testing.B) {
			net, err := Draw(s)
			if err != nil {
				b.Fatal(err)
			}
			g, err := NewGeneric(net, 4)
			if err != nil {
				b.Fatal(err)
			}
			const steps = 128
			in := make([]float32, steps*s.Channels)
			for i := range in {
				in[i] = float32(i%17)/8 - 1
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := g.Advance(in, []Run{{Slot: 1, To: steps}}, nil); err != nil {
					b.Fatal(err)
				}
			}
			n := float64(b.N) * steps
			b.ReportMetric(n/b.Elapsed().Seconds(), "steps/s")
			b.ReportMetric(n*float64(2*s.Members*s.Units*(s.Units+s.Inputs()))/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}

func BenchmarkGenericMixed(b *testing.B) {
	for _, name := range Banks[1:] {
		for _, steps := range []int{1, 128} {
			b.Run(fmt.Sprintf("%s,%d", name, steps), func(b *testing.B) {
				s, err := Bank(name, 1)
				if err != nil {
					b.Fatal(err)
				}
				net, err := Draw(s.ForLength(1000))
				if err != nil {
					b.Fatal(err)
				}
				g, err := NewGeneric(net, 4)
				if err != nil {
					b.Fatal(err)
				}
				in := make([]float32, steps)
				for i := range in {
					in[i] = float32(i%17)/8 - 1
				}
				b.ReportAllocs()
				for b.Loop() {
					if err := g.Advance(in, []Run{{Slot: 1, To: int32(steps)}}, nil); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(b.Elapsed().Seconds()/float64(b.N*steps)*1e6, "µs/sample")
			})
		}
	}
}
