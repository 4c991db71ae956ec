package learn

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/labels"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// saying takes labels into a book, stored one ns after the other from 100 on.
func saying(t *testing.T, all ...labels.Label) *Book {
	t.Helper()
	b := NewBook()
	for i, l := range all {
		must(t, b.Add(labels.Stored{Label: l, Number: uint64(i + 1), Stored: time.Unix(0, int64(100+i))}))
	}
	return b
}

// holding is a store with these sequences.
func holding(t *testing.T, all ...Entry) *Store {
	s := open(t, t.TempDir())
	must(t, s.Begin(features(1)))
	for _, e := range all {
		s.take([]stored{{Entry: e, segment: "x"}})
	}
	return s
}

// A label by seq and row is about the newest sequence of that name that was stored
// before the label, else about the first.
func TestLabelOfSeveralLives(t *testing.T) {
	life := func(in uint64, at int64) Entry {
		return Entry{Stream: "s", In: in, Stored: at, Seq: 7, Row: 2, Earliest: codec.NoTime, Latest: codec.NoTime}
	}
	s := holding(t, life(1, 50), life(2, 90), life(3, 150))
	for _, c := range []struct {
		before int // labels about nothing, so that it is stored later
		want   uint64
	}{{0, 2}, {49, 2}, {50, 3}} {
		var all []labels.Label
		for range c.before {
			all = append(all, labels.Label{Stream: "x", Seq: 1, Class: "c", Who: "w"})
		}
		j := Join(s, saying(t, append(all, labels.Label{Stream: "s", Seq: 7, Row: 2, Class: "c", Who: "w"})...), reservoir.Policy{Kind: reservoir.Marked}, nil)
		if len(j.Examples) != 1 || j.Examples[0].In != c.want {
			t.Errorf("a label stored at %d is about %+v, want input %d", 100+c.before, j.Examples, c.want)
		}
	}
	j := Join(holding(t, life(3, 150)), saying(t, labels.Label{Stream: "s", Seq: 7, Row: 2, Class: "c", Who: "w"}), reservoir.Policy{Kind: reservoir.Marked}, nil)
	if len(j.Examples) != 1 || j.Report.Used != 1 {
		t.Errorf("a label that came before its samples: %+v", j.Report)
	}
}

// Sequences of a stream that overlap or follow one another, with one class, are of one
// group; a sample between them, or an unknown one, separates.
func TestGroups(t *testing.T) {
	piece := func(from, to uint64) Entry { // samples from until before to, a message each
		e := Entry{Stream: "s", In: to - 1, Seq: to - 1, Last: Place{In: to - 1, Seq: to - 1}, Earliest: int64(from), Latest: int64(to - 1)}
		if from > 1 {
			e.Before = Place{In: from - 1, Seq: from - 1}
		}
		return e
	}
	s := holding(t, piece(1, 10), piece(6, 15), piece(15, 20), piece(21, 30), piece(30, 40), piece(40, 50))
	said := saying(t, labels.Label{Stream: "s", From: 0, To: 30, Class: "a", Who: "w"}, labels.Label{Stream: "s", From: 30, To: 40, Class: "b", Who: "w"}, labels.Label{Stream: "s", From: 40, To: 50, Class: "b", Who: "w"})
	groups := func(kind reservoir.PolicyKind) (all []int) {
		for _, x := range Join(s, said, reservoir.Policy{Kind: kind}, nil).Examples {
			all = append(all, x.Group)
		}
		return all
	}
	if got := fmt.Sprint(groups(reservoir.Window)); got != "[0 0 0 1 2 2]" {
		t.Errorf("groups %s", got)
	}
	if got := fmt.Sprint(groups(reservoir.Gap)); got != "[0 1 2 3 4 5]" {
		t.Errorf("under gap, groups %s", got)
	}
}

// Many labels that are about nothing take time and memory in proportion, and the lists
// stay short.
func TestManyPending(t *testing.T) {
	const many = 100_000
	b := NewBook()
	for i := range many {
		l := labels.Label{Stream: fmt.Sprint("s", i%1000), Seq: uint64(i + 1), Class: "c", Who: "w"}
		if i%2 == 0 {
			l = labels.Label{Stream: fmt.Sprint("s", i%1000), From: int64(i), To: int64(i) + 5, Class: "c", Who: "w"}
		}
		must(t, b.Add(labels.Stored{Label: l, Number: uint64(i + 1), Stored: time.Unix(0, 1)}))
		b.AddMalformed(uint64(i+1), errors.New("no"))
	}
	var all []Entry
	for i := range 1000 {
		all = append(all, Entry{Stream: fmt.Sprint("s", i), In: 1, Seq: 1, Row: 1, Earliest: 1 << 40, Latest: 1 << 41})
	}
	r := Join(holding(t, all...), b, reservoir.Policy{Kind: reservoir.Marked}, nil).Report
	if r.Pending != many || r.Malformed != many || len(r.PendingList) != listed || len(r.MalformedList) != listed || len(r.Reasons) != 1 || r.Sequences != 0 {
		t.Errorf("%d pending, %d malformed, lists of %d and %d, %v", r.Pending, r.Malformed, len(r.PendingList), len(r.MalformedList), r.Reasons)
	}
}

// Intervals that hold a sequence are found, however they lie.
func TestIntervals(t *testing.T) {
	var all []labels.Label
	for from := range int64(12) {
		for to := from + 1; to <= 12; to++ {
			all = append(all, labels.Label{Stream: "s", From: from, To: to, Class: "c", Who: "w"})
		}
	}
	a := saying(t, all...).of("s")
	for earliest := range int64(12) {
		for latest := earliest; latest < 12; latest++ {
			n, want := 0, 0
			a.around(earliest, latest, func(l Label) { n++ })
			for _, l := range all {
				if l.From <= earliest && latest < l.To {
					want++
				}
			}
			if n != want {
				t.Fatalf("samples from %d to %d lie in %d intervals, want %d", earliest, latest, n, want)
			}
		}
	}
}

// What --without takes, and what it refuses.
func TestWithout(t *testing.T) {
	w, err := ParseWithout([]string{"stream=hall?.*", "who=anna", "1970-01-01T00:00:00.00000001Z..1970-01-01T00:00:00.00000002Z"})
	must(t, err)
	for _, c := range []struct {
		e   Entry
		out bool
	}{
		{Entry{Stream: "hall1.p", Earliest: 50, Latest: 60}, true}, {Entry{Stream: "hall12.p", Earliest: 50, Latest: 60}, false}, {Entry{Stream: "xhall1.p"}, false},
		{Entry{Stream: "p", Earliest: 1, Latest: 9}, false}, {Entry{Stream: "p", Earliest: 1, Latest: 10}, true}, {Entry{Stream: "p", Earliest: 19, Latest: 30}, true},
		{Entry{Stream: "p", Earliest: 20, Latest: 30}, false}, {Entry{Stream: "p", Earliest: codec.NoTime, Latest: codec.NoTime, Stored: 15}, true},
	} {
		if got := w.entry(&c.e); got != c.out {
			t.Errorf("%+v left out: %v", c.e, got)
		}
	}
	for _, text := range []string{"", "stream=", "who=", "anna", "1..2", "2026-01-31T12:00:00Z..2026-01-31T12:00:00Z"} {
		if _, err := ParseWithout([]string{text}); err == nil || !strings.Contains(err.Error(), "--without") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
