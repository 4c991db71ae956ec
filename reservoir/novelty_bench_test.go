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
	for _, set := range kernel.Levels() {
		for _, some := range []int{1, kernel.Streams} {
			b.Run(fmt.Sprintf("%s/%d", set.Name, some), func(b *testing.B) {
				n, dst, fresh := newNovelty(d, set), make([]float32, some), noise(features)
				for b.Loop() {
					for i := range some {
						copy(n.rows[i*n.stride:], fresh)
					}
					n.score(dst, nil)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*some)/1000, "us/prediction")
			})
		}
	}
}
