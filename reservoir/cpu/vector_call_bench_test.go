package cpu

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/kernel"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// BenchmarkCall splits the time of a call with one sample a stream: only the
// step kernel, only the moves of its states and sums between slots and tile,
// and the rest of the whole call. All parts alternate in bursts of some 50 µs;
// the benchmark reports nanoseconds a call of the quickest 20th part of bursts,
// the machine's quiet moments.
func BenchmarkCall(b *testing.B) {
	for _, c := range []struct {
		name                              string
		members, units, channels, streams int
	}{
		{"paper", 1, 100, 6, 1},
		{"paper", 1, 100, 6, 8},
		{"paper", 1, 100, 6, 16},
		{"paper", 1, 100, 6, 32},
		{"bank", 40, 50, 2, 1},
		{"bank", 40, 50, 2, 32},
	} {
		s := benchSpec(c.members, c.units, c.channels)
		for _, set := range kernel.Levels() {
			b.Run(fmt.Sprintf("%s/N=%d,X=%d,B=%d/%s", c.name, c.units, s.Inputs(), c.streams, set.Name), func(b *testing.B) { benchCall(b, s, set, c.streams) })
		}
	}
}

func benchCall(b *testing.B, s reservoir.Spec, set *kernel.Set, streams int) {
	net, err := reservoir.Draw(s)
	if err != nil {
		b.Fatal(err)
	}
	v, err := newVector(net, streams, set, 1)
	if err != nil {
		b.Fatal(err)
	}
	defer v.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	in, runs := make([]float32, streams*s.Channels), make([]reservoir.Run, streams)
	for i := range in {
		in[i] = float32(rng.NormFloat64())
	}
	for i := range runs {
		runs[i] = reservoir.Run{Slot: int32(i), From: int32(i), To: int32(i + 1)}
	}
	call := func() {
		if err := v.Advance(in, runs, nil); err != nil {
			b.Fatal(err)
		}
	}
	call() // leaves the kernel's arguments as required
	w := v.gang.workers[0].(*worker)
	shape, tiles := single, streams // and how many
	if streams > v.singles {
		shape = v.shapeOf(min(streams, v.plan.lanes))
		tiles = (streams + v.shapes[shape].lanes - 1) / v.shapes[shape].lanes
	}
	kernels := func() {
		w.args.Inputs = kernel.Address(in)
		if w.x != nil {
			w.args.Inputs = kernel.Address(w.x)
		}
		w.steps(1)
	}
	moves := func(tile, m int) {
		if shape == single {
			words := v.state(int32(tile))[v.layout.Member(m):]
			w.moveSingle(words, set.Spread)
			w.moveSingle(words, set.Collect)
			return
		}
		slots := w.slots[:v.shapes[shape].lanes]
		w.load(m, slots)
		w.store(m, slots)
	}
	parts := []func(){
		call,
		func() {
			for range s.Members * tiles {
				kernels()
			}
		},
		func() {
			for i := range tiles {
				for m := range s.Members {
					moves(i, m)
				}
			}
		},
	}
	took := make([][]float64, len(parts))
	var peaks []float64
	for b.Loop() {
		for i, part := range parts {
			n := 0
			at := time.Now()
			for time.Since(at) < 50*time.Microsecond {
				for range 16 {
					part()
				}
				n += 16
			}
			took[i] = append(took[i], float64(time.Since(at).Nanoseconds())/float64(n))
		}
		at := time.Now()
		done := set.Peak(5e6)
		peaks = append(peaks, done/float64(time.Since(at).Nanoseconds()))
	}
	quiet := func(v []float64) float64 {
		slices.Sort(v)
		return v[len(v)/20]
	}
	slices.Sort(peaks)
	peak := peaks[len(peaks)*19/20]
	ns := []float64{quiet(took[0]), quiet(took[1]), quiet(took[2])}
	flops := 2 * float64(s.Members*s.Units*(s.Units+s.Inputs())*streams)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ns[0], "ns/call")
	b.ReportMetric(ns[1], "ns-kernel")
	b.ReportMetric(ns[2], "ns-moves")
	b.ReportMetric(ns[0]-ns[1]-ns[2], "ns-rest")
	b.ReportMetric(100*flops/ns[0]/peak, "%peak")
}
