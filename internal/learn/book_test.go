package learn

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/labels"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// bookOf returns a book of labels, stored one ns after another from 100 on.
func bookOf(t *testing.T, all ...labels.Label) *Book {
	t.Helper()
	b := NewBook()
	for i, l := range all {
		must(t, b.AddLabel(labels.Stored{Label: l, Number: uint64(i + 1), Stored: time.Unix(0, int64(100+i))}))
	}
	return b
}

// storeOf returns a store with these sequences.
func storeOf(t *testing.T, all ...Entry) *Store {
	s := openStore(t, t.TempDir())
	must(t, s.BindTo(newOrigin(1)))
	for _, e := range all {
		s.addEntries([]storedEntry{{Entry: e, segment: "x"}})
	}
	return s
}

// TestLabelOfSeveralLives: a label by seq and row names the newest sequence with these numbers that
// was stored before the label, else the first sequence.
func TestLabelOfSeveralLives(t *testing.T) {
	life := func(in uint64, at int64) Entry {
		return Entry{Stream: "s", In: in, Stored: at, Seq: 7, Row: 2, Earliest: codec.NoTime, Latest: codec.NoTime}
	}
	s := storeOf(t, life(1, 50), life(2, 90), life(3, 150))
	for _, c := range []struct {
		before int // unrelated labels, which delay the label's storage
		want   uint64
	}{{0, 2}, {49, 2}, {50, 3}} {
		var all []labels.Label
		for range c.before {
			all = append(all, labels.Label{Stream: "x", Seq: 1, Class: "c", Who: "w"})
		}
		j := JoinLabels(s, bookOf(t, append(all, labels.Label{Stream: "s", Seq: 7, Row: 2, Class: "c", Who: "w"})...), reservoir.Policy{Kind: reservoir.Marked}, nil)
		if len(j.Examples) != 1 || j.Examples[0].In != c.want {
			t.Errorf("a label stored at %d is about %+v, want input %d", 100+c.before, j.Examples, c.want)
		}
	}
	j := JoinLabels(storeOf(t, life(3, 150)), bookOf(t, labels.Label{Stream: "s", Seq: 7, Row: 2, Class: "c", Who: "w"}), reservoir.Policy{Kind: reservoir.Marked}, nil)
	if len(j.Examples) != 1 || j.Report.Used != 1 {
		t.Errorf("a label that came before its samples: %+v", j.Report)
	}
}

// TestFutureSample: after a sample whose time is in the future, labels by time are still searched.
func TestFutureSample(t *testing.T) {
	b := bookOf(t, labels.Label{Stream: "s", From: 300, To: 400, Class: "c", Who: "w"})
	f := finder{store: storeOf(t), book: b, policy: reservoir.Policy{Kind: reservoir.Marked}, progress: Progress{Passed: map[string]int64{}, Labels: b.Last}}
	q := sequenceOf("s", 200)
	q.Latest = 1 << 60
	f.wantsSequence(q)
	if !f.selectStreams(replay.FeaturesLog{Last: 9}) {
		t.Error("a label of later samples is searched no more")
	}
}

// TestGroups: overlapping or adjacent sequences of a stream with one class form a group; a sample
// between them, known or unknown, separates groups.
func TestGroups(t *testing.T) {
	piece := func(from, to uint64) Entry { // samples from (inclusive) to (exclusive), one per message
		e := Entry{Stream: "s", In: to - 1, Seq: to - 1, Last: Place{In: to - 1, Seq: to - 1}, Earliest: int64(from), Latest: int64(to - 1)}
		if from > 1 {
			e.Before = Place{In: from - 1, Seq: from - 1}
		}
		return e
	}
	s := storeOf(t, piece(1, 10), piece(6, 15), piece(15, 20), piece(21, 30), piece(30, 40), piece(40, 50))
	said := bookOf(t, labels.Label{Stream: "s", From: 0, To: 30, Class: "a", Who: "w"}, labels.Label{Stream: "s", From: 30, To: 40, Class: "b", Who: "w"}, labels.Label{Stream: "s", From: 40, To: 50, Class: "b", Who: "w"})
	groups := func(kind reservoir.PolicyKind) (all []int) {
		for _, x := range JoinLabels(s, said, reservoir.Policy{Kind: kind}, nil).Examples {
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

// TestManyPending: many labels without sequences need proportional time and memory, and the lists
// stay short.
func TestManyPending(t *testing.T) {
	const many = 100_000
	b := NewBook()
	for i := range many {
		l := labels.Label{Stream: fmt.Sprint("s", i%1000), Seq: uint64(i + 1), Class: "c", Who: "w"}
		if i%2 == 0 {
			l = labels.Label{Stream: fmt.Sprint("s", i%1000), From: int64(i), To: int64(i) + 5, Class: "c", Who: "w"}
		}
		must(t, b.AddLabel(labels.Stored{Label: l, Number: uint64(i + 1), Stored: time.Unix(0, 1)}))
		b.AddMalformed(uint64(i+1), errors.New("no"))
	}
	var all []Entry
	for i := range 1000 {
		all = append(all, Entry{Stream: fmt.Sprint("s", i), In: 1, Seq: 1, Row: 1, Earliest: 1 << 40, Latest: 1 << 41})
	}
	r := JoinLabels(storeOf(t, all...), b, reservoir.Policy{Kind: reservoir.Marked}, nil).Report
	if r.Pending != many || r.Malformed != many || len(r.PendingList) != maxListed || len(r.MalformedList) != maxListed || len(r.Reasons) != 1 || r.Sequences != 0 {
		t.Errorf("%d pending, %d malformed, lists of %d and %d, %v", r.Pending, r.Malformed, len(r.PendingList), len(r.MalformedList), r.Reasons)
	}
}

// TestIntervals: all intervals that cover a sequence are found, in any arrangement.
func TestIntervals(t *testing.T) {
	var all []labels.Label
	for from := range int64(12) {
		for to := from + 1; to <= 12; to++ {
			all = append(all, labels.Label{Stream: "s", From: from, To: to, Class: "c", Who: "w"})
		}
	}
	a := bookOf(t, all...).labelsOf("s")
	for earliest := range int64(12) {
		for latest := earliest; latest < 12; latest++ {
			n, want := 0, 0
			a.eachCovering(earliest, latest, func(l Label) { n++ })
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

// TestWithout: accepted and refused forms of --exclude.
func TestWithout(t *testing.T) {
	w, err := ParseExclusion([]string{"stream=hall?.*", "who=anna", "1970-01-01T00:00:00.00000001Z..1970-01-01T00:00:00.00000002Z"})
	must(t, err)
	for _, c := range []struct {
		e   Entry
		out bool
	}{
		{Entry{Stream: "hall1.p", Earliest: 50, Latest: 60}, true}, {Entry{Stream: "hall12.p", Earliest: 50, Latest: 60}, false}, {Entry{Stream: "xhall1.p"}, false},
		{Entry{Stream: "p", Earliest: 1, Latest: 9}, false}, {Entry{Stream: "p", Earliest: 1, Latest: 10}, true}, {Entry{Stream: "p", Earliest: 19, Latest: 30}, true},
		{Entry{Stream: "p", Earliest: 20, Latest: 30}, false}, {Entry{Stream: "p", Earliest: codec.NoTime, Latest: codec.NoTime, Stored: 15}, true},
	} {
		if got := w.excludesEntry(&c.e); got != c.out {
			t.Errorf("%+v left out: %v", c.e, got)
		}
	}
	for _, text := range []string{"", "stream=", "who=", "anna", "1..2", "2026-01-31T12:00:00Z..2026-01-31T12:00:00Z"} {
		if _, err := ParseExclusion([]string{text}); err == nil || !strings.Contains(err.Error(), "--exclude") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
