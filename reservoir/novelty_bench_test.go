package reservoir

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/kernel"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
)

// A score of bank standard's features, without reading them from an engine: so many
// sequences at once.
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
	d := &novelty.Detector{Center: noise(features), Scale: noise(features), Axes: noise(features * novelty.Dimensions), Left: []float32{1}, Unit: .5, Level: .5}
	reads := *d
	reads.Inputs = noise(features * 9) // three channels
	for _, set := range kernel.Levels() {
		for _, some := range []int{1, kernel.Streams} {
			for name, d := range map[string]*novelty.Detector{"": d, "/inputs": &reads} {
				b.Run(fmt.Sprintf("%s/%d%s", set.Name, some, name), func(b *testing.B) {
					n, dst, inputs, fresh := newNovelty(d, set), make([]float32, some), make([]float32, some*d.InputValues()), noise(features)
					for b.Loop() {
						for i := range some {
							copy(n.rows[i*n.stride:], fresh)
						}
						n.score(dst, inputs)
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*some)/1000, "us/prediction")
				})
			}
		}
	}
}

// What the scores of a readout of 4 classes and of a detector that reads the inputs of two
// channels take a prediction, of bank standard's features, eight predictions at once: one
// after the other, and together.
func BenchmarkJudged(b *testing.B) {
	net, err := Draw(DefaultBank(2).ForLength(512))
	if err != nil {
		b.Fatal(err)
	}
	f := net.Spec.FeatureCount()
	rng := rand.New(rand.NewPCG(2, 4))
	noise := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	l := &readout.Linear{Classes: make([]string, 4), Center: noise(f), Weights: noise(4 * f), Intercept: noise(4)}
	d := &novelty.Detector{Center: noise(f), Scale: noise(f), Axes: noise(f * novelty.Dimensions), Inputs: noise(f * 6), Left: []float32{1}, Unit: .5, Level: .5}
	fresh := noise(f)
	for _, set := range kernel.Levels() {
		for _, how := range []string{"readout", "apart", "together"} {
			b.Run(set.Name+"/"+how, func(b *testing.B) {
				v := &vectorPool{set: set, features: f, width: 4, readouts: packReadouts([]*readout.Linear{l}, set), judges: 7}
				v.detectors = []*detector{packDetector(d, set)}
				if v.pair(); how != "together" {
					v.beside = nil
				} else if v.beside == nil {
					b.Skip("NOT CHECKED: nothing goes together here")
				}
				var e emission
				e.init(v)
				c := &call{scores: make([]float32, kernel.Streams*v.width), judged: make([]float32, kernel.Streams*v.judges)}
				for b.Loop() {
					for i := range kernel.Streams {
						copy(e.row(e.features, i), fresh)
						e.number[i] = i
					}
					if e.judged = kernel.Streams; how == "readout" {
						e.judged, e.others = 0, kernel.Streams
					}
					e.flush(c)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*kernel.Streams)/1000, "us/prediction")
			})
		}
	}
}
