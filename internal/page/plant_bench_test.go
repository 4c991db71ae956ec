package page

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// newOutput returns the message of predictions number seq: one prediction of each of n machines.
func newOutput(seq uint64, n int, at time.Time) consumer.Output {
	o := consumer.Output{Seq: seq, Stored: at, Meta: codec.PredictionMeta{Labels: []string{"healthy", "worn"}}}
	for i := range n {
		p := codec.Prediction{Stream: fmt.Sprintf("hall%d.line%d.pump-%d", i%5, i%50, i), Answer: outcome.Answer{Probability: .9}}
		switch {
		case i%100 == 1:
			p.Class = 1
		case i%200 == 2:
			p.Flags = outcome.FlagFlat
		}
		o.Predictions = append(o.Predictions, p)
	}
	return o
}

// BenchmarkMachines measures the work for 10,000 machines: decoding and adding
// predictions, the summary of each second, and the list of each two seconds for a viewer.
func BenchmarkMachines(b *testing.B) {
	const n = 10_000
	now := time.Now()
	var t machines
	for i := range uint64(keptPoints) {
		o := newOutput(i+1, n, now.Add(time.Duration(i)*time.Second))
		t.addOutput(&o)
	}
	now = now.Add(keptPoints * time.Second)
	b.Run("add", func(b *testing.B) {
		o := newOutput(100, n, now)
		for b.Loop() {
			t.addOutput(&o)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/prediction")
	})
	b.Run("decode", func(b *testing.B) {
		o := newOutput(100, n, now)
		encoder, err := codec.NewPredictionEncoder(o.Meta)
		if err != nil {
			b.Fatal(err)
		}
		data, err := encoder.Encode(o.Predictions)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, _, err := codec.DecodePredictions(data); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/prediction")
		b.ReportMetric(float64(len(data))/n, "bytes/prediction")
	})
	b.Run("summary", func(b *testing.B) {
		for b.Loop() {
			t.summarize(now, 0)
		}
	})
	for _, condition := range []string{attention, everyone} {
		b.Run(condition, func(b *testing.B) {
			for b.Loop() {
				data, err := json.Marshal(t.list(query{condition: condition}, now, 0))
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(len(data)), "bytes")
			}
		})
	}
}
