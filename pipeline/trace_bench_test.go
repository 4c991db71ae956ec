//go:build unix

package pipeline_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/traces"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// BenchmarkTraces measures the cost of traces: as in BenchmarkCarry, each iteration is
// a pair, without and with, alternating, on the same job. The collector runs in this
// process, and its decoding counts, too.
func BenchmarkTraces(b *testing.B) {
	small := reservoir.Spec{
		Arithmetic: reservoir.Arithmetic, Kind: reservoir.EuSN, Channels: 6, Members: 1, Units: 200, Seed: 7,
		Precision: reservoir.Float32, Features: []reservoir.Feature{reservoir.Last},
		Eps: reservoir.Fixed(0.1), Gamma: reservoir.Fixed(0.01), Recurrent: reservoir.Fixed(0.5), Input: reservoir.Fixed(1), Bias: reservoir.Fixed(0.1),
	}
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if z, err := gzip.NewReader(r.Body); err == nil {
			io.Copy(io.Discard, z)
		}
	}))
	defer collector.Close()
	for _, c := range []struct {
		name        string
		oneIn, rate int
	}{{"off", 0, 0}, {"one-in=1000", 1000, 100}, {"all", 1, 1e6}, {"all/rate=100", 1, 100}} {
		b.Run(fmt.Sprintf("units=200/rows=64/%s", c.name), func(b *testing.B) {
			l := newShadowLoad(b, small, 64, 8192)
			var with, without, cpu, rate []float64
			for i := range b.N {
				var w [2]window
				for _, on := range []int{i % 2, 1 - i%2} {
					l.rig.tracer = nil
					if on == 1 && c.rate > 0 {
						t, err := traces.Start(traces.Options{Endpoint: collector.URL, OneIn: c.oneIn, Rate: c.rate, Job: l.c.Job, Log: l.rig.log})
						if err != nil {
							b.Fatal(err)
						}
						l.rig.tracer = t
						w[on] = l.runPass(false)
						t.Close(b.Context())
						continue
					}
					w[on] = l.runPass(false)
				}
				with, without = append(with, w[1].cpu()), append(without, w[0].cpu())
				cpu = append(cpu, w[1].cpu()/w[0].cpu())
				rate = append(rate, w[0].wall.Seconds()/w[1].wall.Seconds())
			}
			b.ReportMetric(median(with), "cpu-s/Mrow")
			b.ReportMetric(median(without), "without-cpu-s/Mrow")
			b.ReportMetric(median(cpu), "cpu-ratio")
			b.ReportMetric(median(rate), "throughput-ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}
