//go:build unix

package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/producer"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// benchShadows is how many shadows BenchmarkShadows has.
const benchShadows = 3

// BenchmarkShadows measures the cost of shadows: stored messages, of one sequence each,
// until their predictions are acknowledged. Each iteration is a pair, without shadows
// and with three, alternating, on the same job. cpu-s/Mrow is the CPU time of the whole
// process (server included) per million rows, the figure least affected by other load;
// the ratios are medians over pairs.
func BenchmarkShadows(b *testing.B) {
	one := reservoir.Spec{
		Arithmetic: reservoir.Arithmetic, Kind: reservoir.EuSN, Channels: 6, Members: 1, Units: 200, Seed: 7,
		Precision: reservoir.Float32, Features: []reservoir.Feature{reservoir.Last},
		Eps: reservoir.Fixed(0.1), Gamma: reservoir.Fixed(0.01), Recurrent: reservoir.Fixed(0.5), Input: reservoir.Fixed(1), Bias: reservoir.Fixed(0.1),
	}
	for _, c := range []struct {
		name           string
		spec           reservoir.Spec
		rows, messages int
	}{
		{"units=200/rows=1024", one, 1024, 1024},
		{"units=200/rows=64", one, 64, 8192},
		{"bank=standard/rows=1024", reservoir.DefaultBank(6).ForLength(1024), 1024, 1024},
	} {
		b.Run(c.name, func(b *testing.B) {
			l := newShadowLoad(b, c.spec, c.rows, c.messages)
			var with, without []window
			for i := range b.N {
				for _, shadows := range []bool{i%2 == 0, i%2 != 0} {
					if w := l.runPass(shadows); shadows {
						with = append(with, w)
					} else {
						without = append(without, w)
					}
				}
			}
			ratio := func(of func(window) float64) float64 {
				var r []float64
				for i := range with {
					r = append(r, of(with[i])/of(without[i]))
				}
				return median(r)
			}
			b.ReportMetric(medianOf(with, window.rate), "rows/s")
			b.ReportMetric(medianOf(without, window.rate), "without-rows/s")
			b.ReportMetric(ratio(window.rate), "rate-ratio")
			b.ReportMetric(medianOf(with, window.cpu), "cpu-s/Mrow")
			b.ReportMetric(medianOf(without, window.cpu), "without-cpu-s/Mrow")
			b.ReportMetric(ratio(window.cpu), "cpu-ratio")
			b.ReportMetric(float64(l.missed), "missed")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// shadowLoad is a job with a growing input.
type shadowLoad struct {
	b              *testing.B
	rig            *rig
	m              *reservoir.Model
	c              pipeline.Config
	shadows        []string
	rows, messages int
	missed         uint64
}

func newShadowLoad(b *testing.B, spec reservoir.Spec, rows, messages int) *shadowLoad {
	net, err := reservoir.Draw(spec)
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(4, 5))
	m := &reservoir.Model{Network: net, Policy: reservoir.Policy{Kind: reservoir.Count, Length: rows}, Channels: []string{"a", "b", "c", "d", "e", "f"}}
	f := spec.FeatureCount()
	for i := range 1 + benchShadows {
		m.Readouts = append(m.Readouts, &readout.Linear{
			Name: fmt.Sprint("r", i), Classes: []string{"a", "b", "c"}, Center: make([]float32, f), Weights: pipelinetest.Noise(rng, 3*f), Intercept: make([]float32, 3),
		})
	}
	if net.Spec.Standardize {
		net.Norm = reservoir.Norm{Mean: make([]float32, 6), Scale: []float32{1, 1, 1, 1, 1, 1}, Diff: []float32{1, 1, 1, 1, 1, 1}}
	}
	if err := m.Validate(); err != nil {
		b.Fatal(err)
	}
	l := &shadowLoad{b: b, rig: newRig(b), m: m, rows: rows, messages: messages, c: pipeline.Config{Job: "bench", Partitions: 8, MaxMessage: 900 << 10}}
	r := l.rig.startWith(m, l.c, fastestEngine)
	for i := range benchShadows {
		l.shadows = append(l.shadows, l.rig.publishReadout(l.c.Job, m, fmt.Sprint("r", i+1)))
	}
	r.stopStage(b)
	l.runPass(false) // warms up
	return l
}

// runPass stores the messages and makes a stage answer them.
func (l *shadowLoad) runPass(shadows bool) window {
	ctx := l.b.Context()
	for _, print := range l.shadows {
		if !shadows {
			break
		}
		if _, err := operate.SetShadow(ctx, l.rig.js, l.c.Job, operate.Shadow{Readout: print, Who: "bench"}); err != nil {
			l.b.Fatal(err)
		}
	}
	const streams = 64
	x := pipelinetest.Noise(rand.New(rand.NewPCG(1, 2)), 6*l.rows*l.messages/streams)
	var list []producer.Item
	for i := range streams {
		list = append(list, producer.Item{Stream: fmt.Sprintf("s%d", i), X: x})
	}
	if _, err := (producer.Publisher{Channels: l.m.Channels, RowsPerMessage: l.rows, Playing: streams}).Publish(ctx, l.rig.nc, producer.FromSlice(list)); err != nil {
		l.b.Fatal(err)
	}
	r := l.rig.launchStage(l.m, l.c, fastestEngine)
	reach := func(messages int) pipeline.Stats {
		for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(500 * time.Microsecond) {
			if s := r.counters.Stats(); s.Messages >= uint64(messages) {
				return s
			}
		}
		l.b.Fatalf("load not answered: %+v", r.counters.Stats())
		return pipeline.Stats{}
	}
	s := reach(l.messages / 8)
	begin, used := time.Now(), processorTime()
	e := reach(l.messages)
	w := window{rows: e.Rows - s.Rows, wall: time.Since(begin), processor: processorTime() - used}
	if e.Predictions != uint64(l.messages) {
		l.b.Fatalf("%d predictions, want %d", e.Predictions, l.messages)
	}
	scored := r.counters.Shadows()
	for _, one := range scored {
		l.missed += one.Missed
		if one.Predictions+one.Missed != e.Predictions {
			l.b.Fatalf("%+v of %d predictions", one, e.Predictions)
		}
	}
	if shadows != (len(scored) == benchShadows) || len(scored) > benchShadows {
		l.b.Fatalf("%d shadows are scored: this does not measure what it says", len(scored))
	}
	r.stopStage(l.b)
	for _, one := range scored {
		if _, err := operate.EndShadow(ctx, l.rig.js, l.c.Job, one.Readout); err != nil {
			l.b.Fatal(err)
		}
	}
	return w
}
