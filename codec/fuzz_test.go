package codec

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

var update = flag.Bool("update", false, "write the seed corpora under testdata/fuzz")

// TestSeedCorpus writes the seeds as fuzz corpora, or checks that the corpora
// exist: the go tool then replays the seeds in every test run.
func TestSeedCorpus(t *testing.T) {
	in, out := seeds(t)
	in = append(in, message(sharedFields(5, "ax")), message(doublingField(20)), message(nestedField(70)), message(sharedMetadata(5, "v")), eos)
	for name, payloads := range map[string][][]byte{"FuzzDecode": in, "FuzzDecodePredictions": out} {
		for i, p := range payloads {
			path := filepath.Join("testdata", "fuzz", name, fmt.Sprintf("seed-%02d", i))
			if *update {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, fmt.Appendf(nil, "go test fuzz v1\n[]byte(%q)\n", p), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%v; write it with go test ./codec -run TestSeedCorpus -update", err)
			}
		}
	}
}

// FuzzDecode: no bytes panic, hang or allocate without bound, a used decoder
// agrees with a fresh decoder, and an accepted message is a consistent batch
// that survives encoding.
//
// Use -fuzzminimizetime 10x: by default the go tool spends a minute on
// shortening every input with new coverage.
func FuzzDecode(f *testing.F) {
	encoders := map[InputOptions]*InputEncoder{}
	for _, o := range allInputOptions() {
		e, err := NewInputEncoder(testChannels, o)
		if err != nil {
			f.Fatal(err)
		}
		encoders[o] = e
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		var got, again Batch
		used := newDecoder(t, Hold) // of this call only: state from call to call would blur the coverage
		_, err := watch(t, "fresh", payload, func(p []byte) error { return used.Decode(p, &got) })
		_, usedErr := watch(t, "used", payload, func(p []byte) error { return used.Decode(p, &again) })
		if fmt.Sprint(err) != fmt.Sprint(usedErr) {
			t.Fatalf("fresh decoder: %v; used decoder: %v", err, usedErr)
		}
		if s := diff(&again, &got); s != "" {
			t.Fatal(s)
		}
		_, zeroErr := watch(t, "zero", payload, func(p []byte) error { return newDecoder(t, Zero).Decode(p, &again) })
		if fmt.Sprint(err) != fmt.Sprint(zeroErr) || !slices.Equal(got.Missing, again.Missing) {
			t.Fatalf("hold: %v, missing %v; zero: %v, missing %v", err, got.Missing, zeroErr, again.Missing)
		}
		checkBatch(t, &again)
		if err != nil {
			return
		}
		o := InputOptions{Layout: Columns, Times: len(got.Times) > 0, Ends: len(got.Ends) > 0, Keys: len(got.Keys) > 0}
		if got.Rows%2 == 1 {
			o.Layout = List
		}
		encoded, err := encoders[o].Encode(&got)
		if err != nil {
			t.Fatal(err)
		}
		if err := used.Decode(encoded, &again); err != nil {
			t.Fatal(err)
		}
		if s := diff(&again, &got); s != "" {
			t.Fatal(s)
		}
	})
}

// checkBatch checks a batch decoded under Zero against the rules of Batch.
func checkBatch(t *testing.T, b *Batch) {
	t.Helper()
	oneEach := func(what string, n int) {
		if n != 0 && n != b.Rows {
			t.Fatalf("%d %s for %d rows", n, what, b.Rows)
		}
	}
	oneEach("times", len(b.Times))
	oneEach("ends", len(b.Ends))
	oneEach("keys", len(b.Key))
	if len(b.X) != b.Rows*len(testChannels) {
		t.Fatalf("%d samples for %d rows", len(b.X), b.Rows)
	}
	for i, x := range b.X {
		if !isFinite(x) {
			t.Fatalf("sample %d is %v", i, x)
		}
	}
	next := int32(0) // keys appear in order
	for _, k := range b.Key {
		if k < 0 || k > next || int(k) >= len(b.Keys) {
			t.Fatalf("keys %v of %v", b.Key, b.Keys)
		}
		next = max(next, k+1)
	}
	if int(next) != len(b.Keys) || !slices.IsSorted(b.Missing) {
		t.Fatalf("%d keys used of %v; missing %v", next, b.Keys, b.Missing)
	}
}

// FuzzDecodePredictions: as FuzzDecode; an accepted message survives encoding.
func FuzzDecodePredictions(f *testing.F) {
	f.Fuzz(func(t *testing.T, payload []byte) {
		var meta PredictionMeta
		var got []Prediction
		_, err := watch(t, "predictions", payload, func(p []byte) (err error) {
			meta, got, err = DecodePredictions(p)
			return err
		})
		if err != nil || meta.Columns > maxColumns {
			return
		}
		e, err := NewPredictionEncoder(meta)
		if err != nil {
			t.Fatal(err)
		}
		first, err := e.Encode(got)
		if err != nil {
			t.Fatal(err)
		}
		first = slices.Clone(first)
		_, got, err = DecodePredictions(first)
		if err != nil {
			t.Fatal(err)
		}
		second, err := e.Encode(got)
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("encoded twice: %v\n%x\n%x", err, first, second)
		}
	})
}
