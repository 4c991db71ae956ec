//go:build unix

package pipeline_test

import (
	"fmt"
	"testing"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// BenchmarkCarry measures the cost of predictions with features: as in
// BenchmarkShadows, each iteration is a pair, without and with, alternating, on the
// same job.
func BenchmarkCarry(b *testing.B) {
	small := reservoir.Spec{
		Arithmetic: reservoir.Arithmetic, Kind: reservoir.EuSN, Channels: 6, Members: 1, Units: 200, Seed: 7,
		Precision: reservoir.Float32, Features: []reservoir.Feature{reservoir.Last},
		Eps: reservoir.Fixed(0.1), Gamma: reservoir.Fixed(0.01), Recurrent: reservoir.Fixed(0.5), Input: reservoir.Fixed(1), Bias: reservoir.Fixed(0.1),
	}
	for _, c := range []struct {
		name           string
		spec           reservoir.Spec
		rows, messages int
		share          float64
	}{
		{"units=200/rows=64", small, 64, 8192, .01},
		{"units=200/rows=64", small, 64, 8192, 1},
		{"bank=standard/rows=256", reservoir.DefaultBank(6).ForLength(256), 256, 2048, .01},
		{"bank=standard/rows=256", reservoir.DefaultBank(6).ForLength(256), 256, 2048, 1},
	} {
		b.Run(fmt.Sprintf("%s/share=%g", c.name, c.share), func(b *testing.B) {
			l := newShadowLoad(b, c.spec, c.rows, c.messages)
			var with, without, cpu []float64
			for i := range b.N {
				var w [2]window
				for _, carry := range []int{i % 2, 1 - i%2} {
					l.rig.carry = float64(carry) * c.share
					w[carry] = l.runPass(false)
				}
				with, without = append(with, w[1].cpu()), append(without, w[0].cpu())
				cpu = append(cpu, w[1].cpu()/w[0].cpu())
			}
			b.ReportMetric(median(with), "cpu-s/Mrow")
			b.ReportMetric(median(without), "without-cpu-s/Mrow")
			b.ReportMetric(median(cpu), "cpu-ratio")
			b.ReportMetric(float64(l.m.Network.Spec.FeatureCount()), "features")
			b.ReportMetric(0, "ns/op")
		})
	}
}
