package pipeline

import (
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/stats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
)

// A partition given up repeatedly waits longer each time, at most half a minute; after
// work of this length the partition restarts at the shortest pause.
func TestDeferralsGrow(t *testing.T) {
	m := &manager{deferred: map[int]*deferral{}, run: &run{
		counters: &stats.Counters{}, log: slog.New(slog.NewTextHandler(io.Discard, nil)), server: owner.Server{Snaps: &store.Snapshots{}},
	}}
	if m.isDeferred(t.Context(), 3) {
		t.Error("a partition waits that was never given up")
	}
	cause := errors.New("cause")
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		m.backOff(3, cause)
		if w := m.deferred[3]; w.wait != want*time.Second || w.err != cause || time.Until(w.until) > w.wait {
			t.Fatalf("given up %d times: %+v, want a wait of %d s", i+1, w, want)
		}
		if !m.isDeferred(t.Context(), 3) || m.isDeferred(t.Context(), 4) {
			t.Fatal("the partition does not wait, or another one does")
		}
	}
	if n := m.run.counters.Deferred.Load(); n != 7 {
		t.Errorf("%d deferrals counted, want 7", n)
	}

	w, tn := m.deferred[3], &owner.Ownership{}
	w.until = time.Now().Add(-time.Millisecond)
	if m.isDeferred(t.Context(), 3) {
		t.Error("the partition waits although its time is over")
	}
	for _, c := range []struct {
		rebuilt bool
		ago     time.Duration
		forgets bool
	}{
		{false, 2 * mostWait, false}, // not reached yet
		{true, mostWait / 2, false},
		{true, 2 * mostWait, true},
	} {
		if c.rebuilt {
			tn.Rebuilt()
		}
		w.until = time.Now().Add(-c.ago)
		m.resetDeferral(3, tn)
		if _, there := m.deferred[3]; there == c.forgets {
			t.Errorf("rebuilt %v, claimed again %v ago: forgotten %v", c.rebuilt, c.ago, !there)
		}
	}
}
