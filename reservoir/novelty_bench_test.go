package reservoir

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/eusn-stream/eusn-stream/readout/novelty"
	"github.com/eusn-stream/eusn-stream/reservoir/internal/kernel"
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
