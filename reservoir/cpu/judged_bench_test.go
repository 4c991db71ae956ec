package cpu

import (
	"math/rand/v2"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/detect"
	"github.com/eusn-stream/eusn-stream/internal/judge"
	"github.com/eusn-stream/eusn-stream/internal/kernel"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// BenchmarkJudged reports the time of a prediction's scores of a readout of 4 classes and
// of a detector that reads the inputs of two channels, with bank standard's features, for
// eight predictions at once: in turn, and together.
func BenchmarkJudged(b *testing.B) {
	net, err := reservoir.Draw(reservoir.DefaultBank(2).ForLength(512))
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
	d := &novelty.Detector{Center: noise(f), Scale: noise(f), Axes: noise(f * detect.Dimensions), Inputs: noise(f * 6), Left: []float32{1}, Unit: .5, Level: .5}
	fresh := noise(f)
	for _, set := range kernel.Levels() {
		for _, how := range []string{"readout", "apart", "together"} {
			b.Run(set.Name+"/"+how, func(b *testing.B) {
				v := &vectorPool{set: set, features: f, width: 4, readouts: packReadouts([]*readout.Linear{l}, set), judges: 7}
				v.detectors = []*judge.Detector{judge.Pack(d, set)}
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
