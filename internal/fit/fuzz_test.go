package fit

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"runtime"
	"testing"
)

// FuzzMerge: any statistics file gives an error, or a learner that can be solved or returns an
// error. No panic, no allocation beyond the file.
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
		if linear, _, err := l.Solve(context.Background(), Options{Alphas: []float64{1, 10}}); err == nil {
			if err := linear.Validate(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestMergeTakesNoMemoryForClaims: the number of samples claimed by a header takes no memory.
func TestMergeTakesNoMemoryForClaims(t *testing.T) {
	h := partHeader{Features: 40, Classes: []string{"a", "b"}, Samples: 4 << 20, To: 1, Counts: []int{1, 0}}
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	b := append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...)
	b = append(b, make([]byte, 8*(40+2*40+40*41/2))...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l, err := Merge(nil, bytes.NewReader(b), int64(len(b)), Options{Memory: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<22 {
		t.Errorf("%d bytes taken for a file of %d", n, len(b))
	}
	if got, want := l.Plan().SolveWork, NewPlan(h.Features, len(h.Classes), h.Samples, Options{}).SolveWork; got != want {
		t.Errorf("solving takes %g, want %g as planned", got, want)
	}
}
