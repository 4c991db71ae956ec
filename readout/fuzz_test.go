package readout

import (
	"bytes"
	"context"
	"testing"
)

// Whatever a file of statistics holds: an error, or a learner that can be
// solved or says why not. Nothing panics or allocates beyond the file.
func FuzzMerge(f *testing.F) {
	x, labels := blobs(12, 3, 2)
	for _, d := range [][2]int{{12, 3}, {3, 12}} {
		n, features := d[0], d[1]
		l, err := NewLearner(features, classNames(2), labels[:n], Options{Groups: grouped(n)})
		if err != nil {
			f.Fatal(err)
		}
		if err := l.Add(x[:n*features]); err != nil {
			f.Fatal(err)
		}
		var b bytes.Buffer
		if err := l.Encode(&b); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
		f.Add(b.Bytes()[:b.Len()/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := Merge(nil, bytes.NewReader(data), int64(len(data)), Options{Memory: 1 << 24})
		if err != nil {
			return
		}
		if l.samples > 1000 || l.features > 100 || len(l.classes) > 10 {
			return
		}
		if head, _, err := l.Solve(context.Background(), Options{Alphas: []float64{1, 10}}); err == nil {
			if err := head.Validate(); err != nil {
				t.Error(err)
			}
		}
	})
}
