package cpu

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/kernel"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

func benchSpec(members, units, channels int) reservoir.Spec {
	s := reservoir.Spec{
		Arithmetic: reservoir.Arithmetic, Kind: reservoir.EuSN, Channels: channels, Members: members, Units: units, Seed: 1, Precision: reservoir.Float32,
		Features: []reservoir.Feature{reservoir.Last}, Eps: reservoir.Fixed(.01), Gamma: reservoir.Fixed(.001), Recurrent: reservoir.Fixed(.1), Input: reservoir.Fixed(1), Bias: reservoir.Fixed(1),
	}
	if members > 1 {
		s.Standardize, s.Difference, s.Features = true, true, reservoir.AllFeatures
		s.Recurrent, s.EpsRho = reservoir.Dist{}, reservoir.Dist{Lo: .01, Hi: .2}
	}
	return s
}

// BenchmarkVector reports each level's rate and its share of one core's peak of
// fused multiply-adds, measured in alternation, counting 2 N (N + X) operations
// a sample and member, for a ring 2 N (1 + X). Medians over the calls, and the
// best call's share of the best peak: on a shared machine the result of the
// quiet moments.
func BenchmarkVector(b *testing.B) {
	for _, c := range []struct {
		name                                       string
		members, units, channels, streams, samples int
	}{
		{"ring", 1, 100, 6, 1024, 128},
		{"ring", 1, 100, 6, 1, 128},
		{"paper", 1, 100, 6, 1024, 128},
		{"paper", 1, 200, 1, 1024, 128},
		{"paper", 1, 50, 3, 4096, 128},
		{"paper", 1, 100, 6, 32, 128},
		{"paper", 1, 100, 6, 32, 1},
		{"paper", 1, 100, 6, 16, 128},
		{"paper", 1, 100, 6, 16, 1},
		{"paper", 1, 100, 6, 1, 128},
		{"paper", 1, 100, 6, 1, 1},
		{"bank", 40, 50, 2, 1024, 32},
		{"bank", 40, 50, 2, 32, 32},
		{"bank", 40, 50, 2, 16, 32},
		{"bank", 40, 50, 2, 1, 32},
		{"bank", 40, 50, 2, 1, 1},
		{"bank", 40, 50, 2, 1024, 1},
	} {
		s := benchSpec(c.members, c.units, c.channels)
		if c.name == "ring" {
			s.Kind, s.SpectralRadius, s.Leak = reservoir.RESN, reservoir.Fixed(.9), reservoir.Fixed(1)
			s.Eps, s.Gamma, s.Recurrent = reservoir.Dist{}, reservoir.Dist{}, reservoir.Dist{}
		}
		for _, set := range kernel.Levels() {
			for _, threads := range []int{1, 2} {
				name := fmt.Sprintf("%s/N=%d,X=%d,B=%d,T=%d/%s/threads=%d", c.name, c.units, s.Inputs(), c.streams, c.samples, set.Name, threads)
				b.Run(name, func(b *testing.B) { benchVector(b, s, set, threads, c.streams, c.samples) })
			}
		}
	}
}

func benchVector(b *testing.B, s reservoir.Spec, set *kernel.Set, threads, streams, samples int) {
	net, err := reservoir.Draw(s)
	if err != nil {
		b.Fatal(err)
	}
	e, err := newVector(net, streams, set, threads)
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	in := make([]float32, streams*samples*s.Channels)
	for i := range in {
		in[i] = float32(rng.NormFloat64())
	}
	runs := make([]reservoir.Run, streams)
	for i := range runs {
		runs[i] = reservoir.Run{Slot: int32(i), From: int32(i * samples), To: int32((i + 1) * samples)}
	}
	recurrent := s.Units
	if s.Kind == reservoir.RESN {
		recurrent = 1
	}
	flops := 2 * float64(s.Members*s.Units*(recurrent+s.Inputs())*streams*samples)
	const least = 2e7 // of the peak's loop: 0.1 ms
	var rates, peaks, shares []float64
	for b.Loop() {
		at := time.Now()
		calls := 0
		for work := 0.0; work < least; work += flops {
			if err := e.Advance(in, runs, nil); err != nil {
				b.Fatal(err)
			}
			calls++
		}
		rates = append(rates, flops*float64(calls)/time.Since(at).Seconds())
		at = time.Now()
		done := set.Peak(min(max(flops, least), 1e9))
		peaks = append(peaks, done/time.Since(at).Seconds())
		shares = append(shares, rates[len(rates)-1]/peaks[len(peaks)-1])
	}
	best := slices.Max(rates) / slices.Max(peaks)
	median := func(v []float64) float64 {
		slices.Sort(v)
		return v[len(v)/2]
	}
	rate := median(rates)
	steps := rate / flops * float64(streams*samples)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(steps/1e6, "Mstep/s")
	b.ReportMetric(rate/1e9, "GFLOP/s")
	b.ReportMetric(100*median(shares), "%peak")
	b.ReportMetric(100*best, "%best")
	b.ReportMetric(1e9/steps, "ns/step")
}

// BenchmarkRandom reports the rate of samples for random streams, one sample
// each, 1,024 a call, if the streams' states together are larger than the
// caches.
func BenchmarkRandom(b *testing.B) {
	const streams, batch = 131072, 1024
	net, err := reservoir.Draw(benchSpec(1, 100, 6))
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	in := make([]float32, batch*6)
	for i := range in {
		in[i] = float32(rng.NormFloat64())
	}
	runs := make([]reservoir.Run, streams)
	for i, slot := range rng.Perm(streams) {
		runs[i] = reservoir.Run{Slot: int32(slot), From: int32(i % batch), To: int32(i%batch + 1)}
	}
	for _, set := range kernel.Levels() {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%s/threads=%d", set.Name, threads), func(b *testing.B) {
				e, err := newVector(net, streams, set, threads)
				if err != nil {
					b.Fatal(err)
				}
				defer e.Close()
				advance := func(i int) float64 {
					at := time.Now()
					if err := e.Advance(in, runs[i*batch:(i+1)*batch], nil); err != nil {
						b.Fatal(err)
					}
					return batch / time.Since(at).Seconds() / 1e6
				}
				for i := range streams / batch { // touches the memory
					advance(i)
				}
				var rates []float64
				for i := 0; b.Loop(); i++ {
					rates = append(rates, advance(i%(streams/batch)))
				}
				slices.Sort(rates)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(rates[len(rates)/2], "Mstep/s")
				b.ReportMetric(rates[len(rates)-1], "Mstep/s-best")
			})
		}
	}
}

// BenchmarkEmit reports the additional time of an emitting run for a bank's
// features and a readout of ten classes, with and without limits, compared with
// the plain engine.
func BenchmarkEmit(b *testing.B) {
	standard, err := reservoir.Bank("standard", 2)
	if err != nil {
		b.Fatal(err)
	}
	for name, s := range map[string]reservoir.Spec{"euler": benchSpec(40, 50, 2), "standard": standard.ForLength(256)} {
		net, err := reservoir.Draw(s)
		if err != nil {
			b.Fatal(err)
		}
		n := net.Spec.FeatureCount()
		plain := readout.Linear{Name: "h", Center: make([]float32, n), Weights: make([]float32, 10*n), Intercept: make([]float32, 10)}
		for c := range 10 {
			plain.Classes = append(plain.Classes, fmt.Sprint(c))
		}
		limits := plain
		for range n {
			limits.Limit = append(limits.Limit, .1)
		}
		for _, kind := range Kinds(net.Spec) {
			b.Run(name+"/plain/"+string(kind), func(b *testing.B) { benchEmit(b, net, kind, &plain) })
			b.Run(name+"/limits/"+string(kind), func(b *testing.B) { benchEmit(b, net, kind, &limits) })
		}
	}
}

func benchEmit(b *testing.B, net *reservoir.Network, kind Kind, h *readout.Linear) {
	const streams = 32
	e, err := New(net, streams, Options{Kind: kind, Threads: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	if err := e.SetReadouts([]*readout.Linear{h}); err != nil {
		b.Fatal(err)
	}
	var runs, step []reservoir.Run
	for i := range int32(streams) {
		runs = append(runs, reservoir.Run{Slot: i, Emit: true})
		step = append(step, reservoir.Run{Slot: i, From: i, To: i + 1})
	}
	in, scores := make([]float32, 2*streams), make([]float32, 10*streams)
	if err := e.Advance(in, step, nil); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := e.Advance(nil, runs, scores); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*streams), "ns/emit")
}
