package learn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/exact"
)

const summedFeatures = 3

// summedStore returns a store with sequences of six streams at two sites.
func summedStore(t *testing.T, dir string) (*Store, []Example) {
	t.Helper()
	s := openStore(t, dir)
	must(t, s.BindTo(newOrigin(summedFeatures)))
	random := rand.New(rand.NewPCG(1, 2))
	for stream := range 6 {
		for i := range 100 {
			row := []float32{random.Float32(), float32(i) * 1e-3, float32(random.NormFloat64()) * 1e-6}
			must(t, s.AddSequence(sequenceOf(fmt.Sprintf("hall%d-%d", stream%2, stream), uint64(i+1)), row))
		}
	}
	must(t, s.Save(Progress{Labels: 7, Input: 9}))
	return s, examplesOf(s)
}

// examplesOf returns all sequences of a store as examples, in groups of five; anna labels most,
// bert some, both the others.
func examplesOf(s *Store) (all []Example) {
	for i, e := range s.Entries() {
		all = append(all, Example{Entry: e, Class: []string{"a", "b"}[e.In%2], Who: []string{"anna", "anna", "anna", "anna\nbert", "bert"}[e.In%5], Group: i / 5})
	}
	return all
}

func siteOf(stream string) string { return strings.Split(stream, "-")[0] }

// sumsOf returns the sums of examples from the features of another store.
func sumsOf(t *testing.T, of *Store, examples []Example) *exact.Sums {
	t.Helper()
	s, err := exact.NewSums(summedFeatures, 2)
	must(t, err)
	row := make([]float32, summedFeatures)
	for i := range examples {
		must(t, of.ReadFeatures(&examples[i].Entry, row))
		must(t, s.Add(row, []int{map[string]int{"a": 0, "b": 1}[examples[i].Class]}))
	}
	return s
}

func filterExamples(all []Example, keep func(x *Example) bool) (some []Example) {
	for i := range all {
		if keep(&all[i]) {
			some = append(some, all[i])
		}
	}
	return some
}

// TestCompact: sums are bit-exact after features were replaced: of all examples, without a site, an
// author, or sequences with restored features; and after reopening.
func TestCompact(t *testing.T) {
	dir := t.TempDir()
	s, all := summedStore(t, dir)
	whole, _ := summedStore(t, t.TempDir())
	classes := []string{"a", "b"}
	want := func(what string, some []Example) {
		t.Helper()
		total, err := s.SumExamples(t.Context(), some, classes)
		if err != nil || !reflect.DeepEqual(total, sumsOf(t, whole, some)) {
			t.Errorf("%s: %v, not the sums of %d", what, err, len(some))
		}
	}
	want("with features", all)
	sample := s.SampleExamples(all, 50)
	if len(sample) != 50 || !slices.IsSorted(sample) {
		t.Fatalf("a sample of %d, want 50", len(sample))
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Compact(ended, all, siteOf, sample); !errors.Is(err, context.Canceled) || s.Len() != 600 {
		t.Errorf("an ended context: %v, features of %d", err, s.Len())
	}
	did, err := s.Compact(t.Context(), all, siteOf, sample)
	if err != nil || did.Sequences != 550 || did.Groups != 6 || s.Len() != 50 || did.Bytes != 4*3*550 {
		t.Fatalf("compacted %+v, %v, features of %d", did, err, s.Len())
	}
	for range 2 {
		want("all", all)
		want("without a site", filterExamples(all, func(x *Example) bool { return siteOf(x.Stream) != "hall1" }))
		want("without bert", filterExamples(all, func(x *Example) bool { return x.Who != "bert" }))
		want("nothing", nil)
		if got := s.SampleExamples(all, 50); !slices.Equal(got, sample) {
			t.Errorf("another sample: %v, want %v", got, sample)
		}
		less := s.SampleExamples(all, 20)
		for _, i := range less {
			if !slices.Contains(sample, i) || s.HasSummed(all[i:i+1]) {
				t.Errorf("example %d is in a smaller sample, and its features were given up", i)
			}
		}
		want("without kept ones", slices.DeleteFunc(slices.Clone(all), func(x Example) bool {
			return slices.ContainsFunc(less, func(i int) bool { return keyOf(&all[i].Entry) == keyOf(&x.Entry) })
		}))
		if len(s.Entries()) != 600 || !s.HasSummed(all) {
			t.Fatalf("it has %d sequences", len(s.Entries()))
		}
		if again, err := s.Compact(t.Context(), all, siteOf, sample); err != nil || again.Sequences != 0 {
			t.Errorf("compacted again: %+v, %v", again, err)
		}
		s.Close()
		s = openStore(t, dir)
	}

	// A part of a group: its features are required, and are recomputed from the log.
	part := filterExamples(all, func(x *Example) bool { return x.In > 30 })
	_, err = s.SumExamples(t.Context(), part, classes)
	if !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), `site "hall0", labeled by anna`) {
		t.Fatalf("without some of each group: %v", err)
	}
	need := s.MarkNeeded(part)
	if need < 100 || need > 180 {
		t.Fatalf("%d are needed, want most of 180", need)
	}
	row := make([]float32, summedFeatures)
	for i := range all {
		x := &all[i]
		if q := sequenceOf(x.Stream, x.In); s.needed[keyOf(&x.Entry)] {
			must(t, whole.ReadFeatures(&x.Entry, row))
			must(t, s.AddSequence(q, row))
		}
	}
	must(t, s.Save(s.Progress()))
	want("without some of each group", part)

	// Other persons choose other classes, and Compact moves the examples.
	for i := range all {
		if all[i].In <= 30 {
			all[i].Class, all[i].Who = "a", "carl"
		}
	}
	want("with other classes", all)
	if did, err := s.Compact(t.Context(), all, siteOf, sample); err != nil || did.Groups != 8 || s.Len() != 50 {
		t.Errorf("compacted %+v, %v, features of %d", did, err, s.Len())
	}
	want("with other classes, compacted", all)
	want("without carl", part)
}

// TestCompactKilled: a kill during Compact neither loses nor duplicates data; the error names a
// damaged file.
func TestCompactKilled(t *testing.T) {
	dir, later := t.TempDir(), t.TempDir()
	s, all := summedStore(t, dir)
	want := sumsOf(t, s, all)
	s.Close()
	before, err := os.ReadDir(dir)
	must(t, err)
	copyAll := func(names []os.DirEntry, from, to string) {
		for _, f := range names {
			b, err := os.ReadFile(filepath.Join(from, f.Name()))
			must(t, err)
			must(t, os.WriteFile(filepath.Join(to, f.Name()), b, 0o600))
		}
	}
	copyAll(before, dir, later)
	s = openStore(t, later)
	sample, early := s.SampleExamples(all, 50), filterExamples(all, func(x *Example) bool { return x.In <= 50 })
	_, err = s.Compact(t.Context(), early, siteOf, s.SampleExamples(early, 50))
	must(t, err)
	first, err := os.ReadDir(later)
	must(t, err)
	between := t.TempDir()
	copyAll(first, later, between)
	_, err = s.Compact(t.Context(), all, siteOf, sample)
	must(t, err)
	s.Close()
	after, err := os.ReadDir(later)
	must(t, err)
	check := func(what string, sums int) {
		t.Helper()
		s := openStore(t, dir)
		total, err := s.SumExamples(t.Context(), all, []string{"a", "b"})
		if err != nil || !reflect.DeepEqual(total, want) || len(s.groups) != sums {
			t.Errorf("%s: %d groups, %v, or other sums", what, len(s.groups), err)
		}
		s.Close()
	}
	copyAll(after, later, dir) // with all previous files: a kill before any removal
	check("with all segments", 6)
	copyAll(first, between, dir)
	check("with all segments, and sums of before", 6)

	path := filepath.Join(dir, "sums-000012.sum")
	good, err := os.ReadFile(path)
	must(t, err)
	for says, content := range map[string][]byte{
		"not a file of sums": nil, "version 9": append([]byte("EUSNLSUM\x09"), good[9:]...), "is damaged": flipBit(good, len(good)/4), // the detecting check depends on the times in the file
		"match their checksum":      flipBit(good, len(good)-9),
		"features and 2 classes in": good[:len(good)-5],
	} {
		must(t, os.WriteFile(path, content, 0o600))
		s, err := Open(dir)
		if err == nil {
			_, err = s.SumExamples(t.Context(), all, []string{"a", "b"})
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want %q, got %v", says, err)
		}
	}
}

func flipBit(b []byte, at int) []byte {
	b = slices.Clone(b)
	b[at] ^= 4
	return b
}

// FuzzGroup: a file of sums with arbitrary bytes gives an error, or a group.
func FuzzGroup(f *testing.F) {
	g := &group{head: groupHead{Site: "s", Who: "anna", Classes: []string{"a"}}, members: map[key]int{}}
	e := entryOf(sequenceOf("s", 1))
	g.members[keyOf(&e)] = 0
	sums, err := exact.NewSums(2, 1)
	if err == nil {
		err = errors.Join(sums.Add([]float32{1, 2}, []int{0}), g.writeFile(f.TempDir(), 1, []Entry{e}, sums))
	}
	if err != nil {
		f.Fatal(err)
	}
	good, err := os.ReadFile(g.path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:50])
	f.Add(flipBit(good, 30))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, all, err := readGroup("x", bytes.NewReader(data), int64(len(data)))
		if bytes.Equal(data, good) && (err != nil || len(all) != 1 || g.head.Who != "anna") {
			t.Errorf("%+v, %v", all, err)
		}
		if bytes.Equal(data, flipBit(good, 30)) && err == nil {
			t.Error("a changed bit is not noticed")
		}
	})
}
