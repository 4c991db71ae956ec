package formats

import (
	"math/rand/v2"
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
)

// BenchmarkDecode decodes messages of 10 and of 1,000 rows of three channels.
func BenchmarkDecode(b *testing.B) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, rows := range []int{10, 1000} {
		batch := &codec.Batch{Rows: rows}
		for range rows * len(channels) {
			batch.X = append(batch.X, float32(rng.NormFloat64()))
		}
		enc, err := codec.NewInputEncoder(channels, codec.InputOptions{})
		if err != nil {
			b.Fatal(err)
		}
		all := append([]shape{{name: "arrow", write: func(batch *codec.Batch) []byte {
			data, err := enc.Encode(batch)
			if err != nil {
				b.Fatal(err)
			}
			return data
		}}}, shapes...)
		for _, s := range all {
			if s.fits != nil && !s.fits(batch) {
				continue
			}
			payload, d := s.write(batch), newDecoder(b, s.in, codec.Reject)
			b.Run(s.name+"/"+map[int]string{10: "10", 1000: "1000"}[rows], func(b *testing.B) {
				var got codec.Batch
				b.ReportAllocs()
				for b.Loop() {
					if err := d.Decode(payload, &got); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows), "ns/row")
			})
		}
	}
}
