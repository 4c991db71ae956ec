package paper

import (
	"context"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/imports"
	"github.com/eusn-stream/eusn-stream/internal/kernel"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// BenchmarkSearch is one model selection of the paper on ShapesAll: 200 configurations of
// Euler State Networks on 600 series of 512 samples, one thread. In addition to the time
// it reports the rate of the reservoirs' operations, and its share of one thread's
// multiply-add peak, measured before and after.
func BenchmarkSearch(b *testing.B) {
	d, err := imports.Import(context.Background(), imports.Options{Dir: shared(b, "datasets", "ShapesAll"), Name: "ShapesAll"}, nil)
	if err != nil {
		b.Fatal(err)
	}
	p, err := newProblem(d, true)
	if err != nil {
		b.Fatal(err)
	}
	kind := cpu.Kinds(reservoir.Spec{})[0]
	open := func(n *reservoir.Network, slots int) (reservoir.Engine, error) {
		return cpu.New(n, slots, cpu.Options{Kind: kind, Threads: 1})
	}
	s, work := NewSettings(PaperExact, 1), 0.0
	for b.Loop() {
		for i, c := range Configurations("eusn", MaxConfigurations) {
			c.Seed = s.trialSeed(i)
			if _, err := p.assess(b.Context(), specs("eusn", p.channels, c), open, s.search(p)); err != nil {
				b.Fatal(err)
			}
			work += gigaflops(float64(c.Units*(c.Units+p.channels)) * float64(p.samples(p.train)))
		}
	}
	rate := work / b.Elapsed().Seconds()
	b.ReportMetric(rate, "Gflop/s")
	if peak, err := kernel.MeasurePeak(string(kind), time.Second); err == nil {
		b.ReportMetric(1e9*rate/peak, "of-peak")
	}
}
