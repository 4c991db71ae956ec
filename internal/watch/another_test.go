package watch

import (
	"errors"
	"testing"
)

// TestEventOfAnotherWriter checks that a process does not mistake another writer's event for its
// own, even with the same bytes and number: two processes would then write the log.
func TestEventOfAnotherWriter(t *testing.T) {
	s, _ := serverWithJob(t)
	first := newWriter(t, s, "first")
	other := *first.book
	other.writer = "second"
	all := someEvents(1, 3)
	for i := range all {
		if err := other.publishEvent(t.Context(), &all[i]); err != nil {
			t.Fatal(err)
		}
	}
	before := first.book.last
	if err := first.book.publishEvent(t.Context(), &all[0]); !errors.Is(err, ErrFenced) {
		t.Errorf("an event that the other process has stored: %v, want %v", err, ErrFenced)
	}
	if err := first.book.publishEvents(t.Context(), all); !errors.Is(err, ErrFenced) {
		t.Errorf("three events that the other process has stored: %v, want %v", err, ErrFenced)
	}
	if first.book.last != before {
		t.Errorf("the first process takes messages %d to %d for its own", before+1, first.book.last)
	}
	if n := first.eventNumbers(); len(n) != 3 {
		t.Errorf("the log has the events %v, want three", n)
	}
}
