package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/kernel"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// TestReadoutsTogether: readouts computed together have the same bits as separately,
// with limits and without, for any number of emitting streams.
func TestReadoutsTogether(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	noise := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	s := benchSpec(1, 20, 2)
	s.Features = []reservoir.Feature{reservoir.Last, reservoir.Mean}
	net, err := reservoir.Draw(s)
	if err != nil {
		t.Fatal(err)
	}
	f := s.FeatureCount()
	var detectors []*novelty.Detector
	for _, dims := range []int{38, 2} { // with 6 that read inputs the first leaves room for 4 columns
		detectors = append(detectors, &novelty.Detector{Center: noise(f), Scale: noise(f), Axes: noise(dims * f), Inputs: noise((dims - 2) % 10 * f), Left: []float32{1}, Unit: .5, Level: .5})
		for j := range detectors[len(detectors)-1].Axes {
			detectors[len(detectors)-1].Axes[j] *= .01 // so that a residual is left
		}
	}
	for _, classes := range [][]int{{4}, {2}, {5}, {4, 12, 3}, {4, 4}, {2, 3, 2, 5}, {3, 17, 2, 2, 9, 4}, {2, 2, 2, 2, 2, 2, 2, 2, 2}} {
		for limits := range 3 { // none, of one, of every second
			var list []*readout.Linear
			width := 0
			for i, n := range classes {
				l := &readout.Linear{Name: fmt.Sprint("r", i), Classes: make([]string, n), Center: noise(f)}
				for c := range l.Classes {
					l.Classes[c] = fmt.Sprint("c", c)
				}
				l.Weights, l.Intercept = noise(l.Columns()*f), noise(l.Columns())
				if limits == 1 && i == 1 || limits == 2 && i%2 == 0 {
					l.Limit = noise(f)
					for j, v := range l.Limit {
						l.Limit[j] = max(float32(math.Abs(float64(v))), .01)
					}
				}
				list, width = append(list, l), width+l.Columns()
			}
			for _, set := range kernel.Levels() {
				e, err := newVector(net, 12, set, 1)
				if err != nil {
					t.Fatal(err)
				}
				if err := e.SetReadouts(list); err != nil {
					t.Fatal(err)
				}
				if err := e.SetDetectors(detectors); err != nil {
					t.Fatal(err)
				}
				if limits == 0 && len(classes) == 2 && set.Features.Apart != nil && len(e.readouts) != 1 {
					t.Fatalf("%s: %d readouts of 4 columns are not computed together", set.Name, len(classes))
				}
				for _, emits := range []int{1, 2, 8, 11, 12} {
					inputs, runs := noise(2*5*emits), []reservoir.Run(nil)
					for i := range emits {
						runs = append(runs, reservoir.Run{Slot: int32(i), Reset: true, Emit: true, Judge: i%3 != 1, From: int32(5 * i), To: int32(5*i + 5)})
					}
					scores := make([]float32, emits*width)
					if err := e.Advance(inputs, runs, scores); err != nil {
						t.Fatal(err)
					}
					features, want := make([]float32, f), make([]float32, width)
					for i := range emits {
						if err := e.Features(int32(i), features); err != nil {
							t.Fatal(err)
						}
						if runs[i].Judge {
							for k, d := range detectors {
								score, inputs := e.Judged(i, k)
								z, want := slices.Clone(features), make([]float32, d.InputValues())
								if s := d.Score(z); math.Float32bits(score) != math.Float32bits(s) {
									t.Fatalf("%s, stream %d of %d: detector %d says %v, want %v", set.Name, i, emits, k, score, s)
								}
								if d.ReadInputs(want, z); !slices.Equal(inputs, want) {
									t.Fatalf("%s, stream %d of %d: inputs by detector %d are %v, want %v", set.Name, i, emits, k, inputs, want)
								}
							}
						}
						at := 0
						for _, l := range list {
							l.Scores(want[at:], features)
							at += l.Columns()
						}
						for k, w := range want {
							if got := scores[i*width+k]; math.Float32bits(got) != math.Float32bits(w) {
								t.Fatalf("%s, classes %v, limits %d, stream %d of %d: score %d is %v, want %v", set.Name, classes, limits, i, emits, k, got, w)
							}
						}
					}
				}
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// BenchmarkReadouts reports the time of a prediction's scores of several readouts of
// 4 classes, with bank standard's features, for eight predictions at once: in turn,
// and together.
func BenchmarkReadouts(b *testing.B) {
	rng := rand.New(rand.NewPCG(8, 2))
	noise := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = 1 + rng.Float32()
		}
		return v
	}
	net, err := reservoir.Draw(reservoir.DefaultBank(2).ForLength(512))
	if err != nil {
		b.Fatal(err)
	}
	f := net.Spec.FeatureCount()
	for _, set := range kernel.Levels() {
		for _, count := range []int{1, 2, 4} {
			for _, limits := range []bool{false, true} {
				var list []*readout.Linear
				for range count {
					l := &readout.Linear{Classes: make([]string, 4), Center: noise(f), Weights: noise(4 * f), Intercept: noise(4)}
					if limits {
						l.Limit = noise(f)
					}
					list = append(list, l)
				}
				packed := map[string][]linear{"together": packReadouts(list, set)}
				for _, l := range list {
					packed["alone"] = append(packed["alone"], packReadout(l, set))
				}
				for _, how := range []string{"alone", "together"} {
					b.Run(fmt.Sprintf("%s/%d/limits=%t/%s", set.Name, count, limits, how), func(b *testing.B) {
						v := &vectorPool{set: set, features: f, width: 4 * count, readouts: packed[how]}
						var e emission
						e.init(v)
						copy(e.features, noise(len(e.features)))
						for i := range e.number {
							e.number[i] = i
						}
						c := &call{scores: make([]float32, kernel.Streams*v.width)}
						for b.Loop() {
							e.others = kernel.Streams
							e.flush(c)
						}
						b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*kernel.Streams)/1000, "us/prediction")
					})
				}
			}
		}
	}
}
