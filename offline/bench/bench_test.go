package bench

import (
	"context"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// BenchmarkSearch is one model selection of the paper on ShapesAll: 200
// configurations of Euler State Networks on 600 series of 512 samples, one
// thread. In addition to the time it gives the rate of the reservoirs' operations,
// and its share of one thread's multiply-add peak, measured around it.
func BenchmarkSearch(b *testing.B) {
	d, err := offline.Import(context.Background(), offline.ImportOptions{Dir: shared(b, "datasets", "ShapesAll"), Name: "ShapesAll"}, nil)
	if err != nil {
		b.Fatal(err)
	}
	p, err := newProblem(d, true)
	if err != nil {
		b.Fatal(err)
	}
	kind := reservoir.CPUKinds()[0]
	open := func(n *reservoir.Network, slots int) (reservoir.Engine, error) {
		return reservoir.NewCPU(n, slots, kind, 1)
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
	if peak, err := reservoir.FMAPeak(kind, time.Second); err == nil {
		b.ReportMetric(1e9*rate/peak, "of-peak")
	}
}

// BenchmarkRMSE is one trial of modelling ECG5000 with 200 units, the input to
// the readout: 500 series of 140 samples.
func BenchmarkRMSE(b *testing.B) {
	d, err := offline.Import(context.Background(), offline.ImportOptions{Dir: shared(b, "datasets", "ECG5000"), Name: "ECG5000"}, nil)
	if err != nil {
		b.Fatal(err)
	}
	p, err := newModellingProblem(d)
	if err != nil {
		b.Fatal(err)
	}
	for _, m := range ModellingModels {
		c := ModellingConfigurations(m, true)[0]
		b.Run(m, func(b *testing.B) {
			for b.Loop() {
				if _, err := p.rmse(b.Context(), specs(m, p.channels, c), openAuto, true, p.fit, p.validation); err != nil {
					b.Fatal(err)
				}
			}
			rate := modellingWork(m, c, p.rows(p.fit), p.rows(p.validation)) * float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(rate, "Gflop/s")
		})
	}
}
