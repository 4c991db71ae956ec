package watch

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
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

// savesBetween is a stream in which another process saves its state after each query of the
// stream's last message.
type savesBetween struct {
	jetstream.Stream
	save func()
}

func (s savesBetween) Info(ctx context.Context, o ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	info, err := s.Stream.Info(ctx, o...)
	s.save()
	return info, err
}

// TestStateSavedDuringRead checks that a process does not report a damaged record if the keeper
// saves a state while the process reads the log. The claim of this process is refused, because the
// process did not read the last message.
func TestStateSavedDuringRead(t *testing.T) {
	s, _ := serverWithJob(t)
	keeper := newWriter(t, s, "keeper")
	other := newWriter(t, s, "other")
	for range 2 {
		if _, err := keeper.book.readRecord(t.Context()); err != nil {
			t.Fatal(err)
		}
		other.book.stream = savesBetween{other.book.stream, func() {
			if err := keeper.book.saveState(t.Context(), keeper.fold, nil, time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
		}}
		known, err := other.book.readRecord(t.Context())
		if !known || err != nil {
			t.Fatalf("the record of the state that was saved meanwhile: %v, %v", known, err)
		}
		if err := other.book.claimRecord(t.Context()); !errors.Is(err, ErrFenced) {
			t.Fatalf("a claim after a message that was not read: %v, want %v", err, ErrFenced)
		}
	}
}
