package watch

import (
	"errors"
	"testing"
)

// An event that another process has stored is not taken for one's own, although it has
// the same bytes and the place where ours would be: the process that claims it would go
// on beside the other one.
func TestEventOfAnotherWriter(t *testing.T) {
	s, _ := ensured(t)
	first := newWriter(t, s, "first")
	other := *first.book
	other.writer = "second"
	all := someEvents(1, 3)
	for i := range all {
		if err := other.event(t.Context(), &all[i]); err != nil {
			t.Fatal(err)
		}
	}
	before := first.book.last
	if err := first.book.event(t.Context(), &all[0]); !errors.Is(err, ErrFenced) {
		t.Errorf("an event that the other process has stored: %v, want %v", err, ErrFenced)
	}
	if err := first.book.events(t.Context(), all); !errors.Is(err, ErrFenced) {
		t.Errorf("three events that the other process has stored: %v, want %v", err, ErrFenced)
	}
	if first.book.last != before {
		t.Errorf("the first process takes messages %d to %d for its own", before+1, first.book.last)
	}
	if n := first.numbers(); len(n) != 3 {
		t.Errorf("the log has the events %v, want three", n)
	}
}
