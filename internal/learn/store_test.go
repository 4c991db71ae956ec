package learn

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/replay"
)

func sequenceOf(stream string, in uint64) *replay.Sequence {
	return &replay.Sequence{Prediction: codec.Prediction{Stream: stream, Seq: in, Row: 3}, In: in, Stored: int64(in), Samples: 5, Rows: 5, Earliest: int64(in), Latest: int64(in) + 1}
}

func newOrigin(n int) Origin {
	return Origin{Job: "eusn", Created: time.Unix(5, 6), Network: "n", Settings: "s", Features: n}
}

func openStore(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestStoreFails: features that could not be written are not stored, and can be added again.
func TestStoreFails(t *testing.T) {
	const n = 1 << 18 // more than the buffer of a segment
	row := make([]float32, n)
	for _, c := range []struct {
		name     string
		features int
	}{{"saving", 2}, {"adding", n}} {
		s := openStore(t, t.TempDir())
		must(t, s.BindTo(newOrigin(c.features)))
		fail := func(i uint64) error {
			s.writing.file.Close() // as on a full disk
			if err := s.AddSequence(sequenceOf("a", i), row[:c.features]); err != nil {
				return err
			}
			return s.Save(Progress{Input: 9})
		}
		must(t, s.AddSequence(sequenceOf("a", 1), row[:c.features]))
		if err := fail(2); err == nil || s.Progress().Input == 9 {
			t.Fatalf("%s: a file that cannot be written: %v, read to %+v", c.name, err, s.Progress())
		}
		for i := range uint64(2) {
			if s.HasFeatures(sequenceOf("a", i+1)) {
				t.Errorf("%s: sequence %d has features that were not written", c.name, i+1)
			}
			must(t, s.AddSequence(sequenceOf("a", i+1), row[:c.features]))
		}
		must(t, s.Save(Progress{}))
		for _, e := range s.Entries() {
			must(t, s.ReadFeatures(&e, row[:c.features]))
		}
		if n := s.Len(); n != 2 {
			t.Errorf("%s: %d sequences, want 2", c.name, n)
		}
	}
}

// TestStore: a reopened store has all saved features, once, in several segments, and no unsaved
// features.
func TestStore(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir)
	must(t, s.BindTo(newOrigin(2)))
	s.limit = 1 // one segment per sequence
	value := func(i uint64) []float32 { return []float32{float32(i), float32(math.Copysign(0, -1))} }
	for _, stream := range []string{"b", "a\n\"é"} {
		for i := uint64(1); i < 4; i++ {
			must(t, s.AddSequence(sequenceOf(stream, i), value(i)))
			must(t, s.AddSequence(sequenceOf(stream, i), value(i)))
		}
	}
	must(t, s.Save(Progress{Labels: 7, Input: 9, Passed: map[string]int64{"b": 5}}))
	s.limit = 1 << 20
	must(t, s.AddSequence(sequenceOf("late", 1), value(1)))
	if _, err := Open(dir); !errors.Is(err, ErrInUse) {
		t.Errorf("a second one opens it: %v", err)
	}
	s.Close()
	s = openStore(t, dir)
	all := s.Entries()
	if len(all) != 6 || all[0].Stream != "a\n\"é" || all[5].Stream != "b" || all[5].In != 3 || s.segments != 6 {
		t.Fatalf("it has %+v in %d segments", all, s.segments)
	}
	if got := s.Progress(); got.Labels != 7 || got.Input != 9 || got.Passed["b"] != 5 {
		t.Errorf("it was read to %+v", got)
	}
	row := make([]float32, 2)
	for i := range all {
		must(t, s.ReadFeatures(&all[i], row))
		if want := value(all[i].In); row[0] != want[0] || math.Float32bits(row[1]) != math.Float32bits(want[1]) {
			t.Errorf("%s %d: features %v, want %v", all[i].Stream, all[i].In, row, want)
		}
	}
	other := newOrigin(2)
	other.Network = "m"
	if err := s.BindTo(other); !errors.Is(err, ErrOther) {
		t.Errorf("it takes another network: %v", err)
	}
	s.Close()

	// A damaged feature, a shortened segment, a later version, a foreign file.
	path := filepath.Join(dir, "features-000001.seg")
	whole, err := os.ReadFile(path)
	must(t, err)
	damaged := slices.Clone(whole)
	damaged[len(damaged)-6] ^= 1
	must(t, os.WriteFile(path, damaged, 0o600))
	s = openStore(t, dir)
	if err := s.ReadFeatures(&s.Entries()[3], row); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "checksum") { // of stream b, the first sequence
		t.Errorf("damaged features: %v", err)
	}
	s.Close()
	later := slices.Clone(whole)
	later[8] = 2
	for says, content := range map[string][]byte{"within a sequence": whole[:segmentHead+2], "longer than the rest": whole[:len(whole)-1], "version 2": later, "not a segment": nil} {
		must(t, os.WriteFile(path, content, 0o600))
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q, got %v", says, err)
		}
	}
	must(t, os.WriteFile(path, whole, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "thesis.doc"), nil, 0o600))
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), `"thesis.doc"`) {
		t.Errorf("a directory with other files: %v", err)
	}
}

// FuzzSegment: reading arbitrary bytes as a segment neither panics nor takes more memory than their
// size.
func FuzzSegment(f *testing.F) {
	dir := f.TempDir()
	w, err := newSegment(filepath.Join(dir, "x"), 3)
	if err == nil {
		err = w.writeEntry(entryOf(sequenceOf("s", 1)), []float32{1, 2, 3})
	}
	if err == nil {
		err = w.writeEntry(entryOf(sequenceOf("t", 2)), []float32{4, 5, 6})
	}
	if err = errors.Join(err, w.close()); err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(filepath.Join(dir, "x"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:40])
	f.Add([]byte(segmentMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		all, err := readSegment("x", r, int64(len(data)), 3)
		if err != nil {
			return
		}
		row := make([]float32, 3)
		for i := range all {
			readFeatures(r, &all[i], row) // an error, or features
		}
		if bytes.Equal(data, good) && (len(all) != 2 || row[2] != 6) {
			t.Errorf("it has %+v, the last with %v", all, row)
		}
	})
}
