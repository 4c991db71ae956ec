package owner

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
)

// TestPhases follows the phases of an ownership in Status, from before the claim to the
// end.
func TestPhases(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	tn := &Ownership{w: &Worker{Lease: time.Minute}, ctx: ctx, Stop: stop, part: shard.NewPartition(4, 0)}
	want := func(p phase, why error) {
		t.Helper()
		if h := tn.Health(); h.Phase != p || h.Err != why {
			t.Errorf("phase %s, error %v, want %s, %v", h.Phase, h.Err, p, why)
		}
	}
	want(claiming, nil)
	tn.claimed.Store(&claim{epoch: 7})
	want(restoring, nil)
	tn.reading.Store(true)
	want(replaying, nil)
	tn.Rebuilt()
	want(reading, nil)
	stop()
	want(releasing, nil)
	tn.Fail(store.ErrFenced)
	want(claiming, nil)
	tn.reason = errors.New("pipeline: its snapshot\nis lost")
	want(stopped, tn.reason)
}
