package judge

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/detect"
	"github.com/eusn-stream/eusn-stream/internal/kernel"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// featured is an engine whose slots have the given features.
type featured struct {
	reservoir.Engine
	of [][]float32
}

func (featured) Name() string { return "featured" }

func (e featured) Features(slot int32, dst []float32) error {
	copy(dst, e.of[slot])
	return nil
}

// On every instruction set, and however many sequences are scored at once, a score has
// the bits of novelty.Detector.Score.
func TestNovelty(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 3))
	noise := func(n int, scale float32) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = scale * float32(rng.NormFloat64())
		}
		return v
	}
	for _, c := range []struct{ features, dims int }{{1, 1}, {7, 2}, {130, 16}, {77, 41}, {301, 33}} {
		d := &novelty.Detector{Center: noise(c.features, 3), Scale: noise(c.features, 1), Axes: noise(c.features*c.dims, 1/float32(c.features)), Left: []float32{1}, Unit: .5, Level: .5}
		if c.dims > 16 {
			d.Usual = &novelty.Usual{Offset: .5, Most: 3, Linear: noise(8, 1), Square: noise(8, 1), Between: c.dims % 16}
		}
		values := 3 * (c.dims % 3)
		d.Inputs = noise(c.features*values, 1/float32(c.features))
		e := featured{of: make([][]float32, 19)}
		var slots []int32
		var want, read []float32
		for i := range e.of {
			e.of[i] = noise(c.features, []float32{1, 1e-3, 1e3, 1e30}[i%4])
			slots = append(slots, int32(i))
			z, row := slices.Clone(e.of[i]), make([]float32, values)
			want = append(want, d.Score(z))
			d.ReadInputs(row, z)
			read = append(read, row...)
		}
		if want[0] == 0 || want[3] != math.MaxFloat32 && c.features > 1 {
			t.Fatalf("scores %v: the test has lost its subject", want)
		}
		for _, set := range append(kernel.Levels(), nil) {
			n, name := newScorer(d, set), "plain"
			if set != nil {
				name = set.Name
			}
			for _, some := range []int{1, 2, 8, 9, 19} {
				got, inputs := make([]float32, some), make([]float32, some*values)
				if err := n.Score(got, inputs, e, slots[:some]); err != nil {
					t.Fatal(err)
				}
				for i, v := range inputs {
					if math.Float32bits(v) != math.Float32bits(read[i]) {
						t.Fatalf("%s, %d features, %d at once, value %d of the inputs: %v, want %v", name, c.features, some, i, v, read[i])
					}
				}
				for i := range got {
					if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
						t.Fatalf("%s, %d features, %d directions, %d of %d at once: %v, want %v", name, c.features, c.dims, i, some, got[i], want[i])
					}
				}
			}
			got, inputs := make([]float32, len(slots)), make([]float32, len(slots)*values)
			var as reservoir.Engine = e
			if n := testing.AllocsPerRun(20, func() { _ = n.Score(got, inputs, as, slots) }); n != 0 {
				t.Errorf("%s: %v allocations", name, n)
			}
		}
	}
}

// BenchmarkNovelty measures scores of bank standard's features, without reading them
// from an engine, for several numbers of sequences.
func BenchmarkNovelty(b *testing.B) {
	const features = 15360
	rng := rand.New(rand.NewPCG(2, 3))
	noise := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	d := &novelty.Detector{Center: noise(features), Scale: noise(features), Axes: noise(features * detect.Dimensions), Left: []float32{1}, Unit: .5, Level: .5}
	reads := *d
	reads.Inputs = noise(features * 9) // three channels
	for _, set := range kernel.Levels() {
		for _, some := range []int{1, kernel.Streams} {
			for name, d := range map[string]*novelty.Detector{"": d, "/inputs": &reads} {
				b.Run(fmt.Sprintf("%s/%d%s", set.Name, some, name), func(b *testing.B) {
					n, dst, inputs, fresh := newScorer(d, set), make([]float32, some), make([]float32, some*d.InputValues()), noise(features)
					for b.Loop() {
						for i := range some {
							copy(n.rows[i*n.stride:], fresh)
						}
						n.scoreSlots(dst, inputs)
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*some)/1000, "us/prediction")
				})
			}
		}
	}
}
