package owner

import (
	"fmt"
	"time"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
	"github.com/eusn-stream/eusn-stream/pipeline/natsclient"
)

// waiting is what a partition waits for while the server does not take it.
type waiting struct {
	since, told time.Time
	why         string
}

// Waits notes that the server did not take something of the partition's, which
// is asked for again unless the partition has ended: then that is the error.
// Only who publishes calls it.
func (t *Ownership) Waits(what string, err error) error {
	if t.failed.Load() {
		return fmt.Errorf("%w: %s", store.ErrUnfinished, what)
	}
	w := t.waiting.Load()
	now := time.Now()
	next := &waiting{since: now, told: now, why: fmt.Sprintf("%s: %v", what, natsclient.Plain(err))}
	if w != nil {
		next.since, next.told = w.since, w.told
	}
	if now.Sub(next.told) >= store.ToldEvery {
		next.told = now
		t.W.Log.Warn("publish failed, retrying: check that the NATS stream exists and has space", "partition", t.Part.State.ID, "what", what, "err", natsclient.Plain(err))
	}
	t.waiting.Store(next)
	return nil
}

// Taken notes that the server has what it was asked to take.
func (t *Ownership) Taken() {
	if t.waiting.Load() != nil {
		t.waiting.Store(nil)
	}
}
