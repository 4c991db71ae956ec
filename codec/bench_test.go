package codec

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
)

var sixChannels = []string{"f0", "f1", "f2", "f3", "f4", "f5"}

// BenchmarkDecode reads messages of a timestamp and six float32 samples per
// row; "library" is the time of the Arrow library's reader for the same matrix.
func BenchmarkDecode(b *testing.B) {
	for _, rows := range []int{1, 10, 64, 1000, 16000} {
		for _, form := range []struct {
			name string
			opts InputOptions
		}{
			{"columns", InputOptions{Layout: Columns, Times: true}},
			{"list", InputOptions{Layout: List, Times: true}},
			{"keys", InputOptions{Layout: Columns, Times: true, Keys: true}},
		} {
			payload := benchPayload(b, rows, form.opts)
			b.Run(fmt.Sprintf("%s/rows=%d", form.name, rows), func(b *testing.B) {
				d, err := NewDecoder(Schema{Channels: sixChannels})
				if err != nil {
					b.Fatal(err)
				}
				var batch Batch
				benchRows(b, rows, payload, func() error { return d.Decode(payload, &batch) })
			})
		}
		payload := benchPayload(b, rows, InputOptions{Layout: Columns, Times: true})
		b.Run(fmt.Sprintf("library/rows=%d", rows), func(b *testing.B) {
			var x []float32
			benchRows(b, rows, payload, func() (err error) {
				x, err = libraryDecode(payload, x[:0])
				return err
			})
		})
	}
}

func benchPayload(b *testing.B, rows int, o InputOptions) []byte {
	e, err := NewInputEncoder(sixChannels, o)
	if err != nil {
		b.Fatal(err)
	}
	payload, err := e.Encode(randomBatch(newRand(1), rows, len(sixChannels), 100))
	if err != nil {
		b.Fatal(err)
	}
	return payload
}

func benchRows(b *testing.B, rows int, payload []byte, decode func() error) {
	b.SetBytes(int64(len(payload)))
	b.ReportAllocs()
	for b.Loop() {
		if err := decode(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// libraryDecode appends the message's samples to x, row-major.
func libraryDecode(payload []byte, x []float32) ([]float32, error) {
	r, err := ipc.NewReader(bytes.NewReader(payload))
	if err != nil {
		return nil, err
	}
	defer r.Release()
	for r.Next() {
		rec := r.Record()
		var cols [][]float32
		for _, c := range rec.Columns() {
			if c.DataType().ID() == arrow.FLOAT32 {
				cols = append(cols, c.(*array.Float32).Float32Values())
			}
		}
		for i := range int(rec.NumRows()) {
			for _, c := range cols {
				x = append(x, c[i])
			}
		}
	}
	return x, r.Err()
}

// BenchmarkEncode writes input messages and predictions.
func BenchmarkEncode(b *testing.B) {
	for _, rows := range []int{64, 1000, 16000} {
		e, err := NewInputEncoder(sixChannels, InputOptions{Times: true})
		if err != nil {
			b.Fatal(err)
		}
		in := randomBatch(newRand(1), rows, len(sixChannels), 100)
		payload, err := e.Encode(in)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("input/rows=%d", rows), func(b *testing.B) {
			benchRows(b, rows, payload, func() error { _, err := e.Encode(in); return err })
		})
	}
	e, err := NewPredictionEncoder(testMeta(4))
	if err != nil {
		b.Fatal(err)
	}
	p := randomPredictions(newRand(1), 1000, 4)
	payload, err := e.Encode(p)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("predictions/rows=1000", func(b *testing.B) {
		benchRows(b, len(p), payload, func() error { _, err := e.Encode(p); return err })
	})
}
