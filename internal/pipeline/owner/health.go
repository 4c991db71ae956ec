package owner

import (
	"errors"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
)

// phase is the activity of an ownership; see pipeline.Phase.
type phase string

const (
	claiming  phase = "claiming"
	restoring phase = "restoring"
	replaying phase = "replaying"
	reading   phase = "reading"
	releasing phase = "releasing"
	postponed phase = "deferred"
	stopped   phase = "stopped"
)

// health is the condition of an ownership; see pipeline.PartitionHealth.
type health struct {
	Phase   phase
	Err     error
	Epoch   uint64
	Lag     int64
	LagTime time.Duration
	Unsaved time.Time
	Waiting string
}

// Lag is how many input messages are stored but not answered, as far as is known.
func (t *Ownership) Lag() int64 {
	unread := max(0, t.Input.unread.Load())
	if t.Input.common.Load() {
		unread = t.w.Common.memberShare()
	}
	return unread + max(0, t.part.Waiting.Load())
}

// Health returns the partition's condition.
func (t *Ownership) Health() health {
	p := health{Epoch: t.epoch(), Lag: t.Lag(), Unsaved: t.storing.unsavedSince()}
	if p.LagTime = t.lagTime(time.Now()); p.LagTime > 0 {
		p.Lag = max(p.Lag, 1)
	}
	if w := t.waiting.Load(); w != nil && time.Since(w.since) > t.w.Lease {
		p.Waiting = w.why
	}
	err := t.Err()
	switch {
	case errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrUnfinished):
		p.Phase = claiming // claiming resumes if the worker should own the partition
	case errors.Is(err, store.ErrLater):
		p.Phase, p.Err = postponed, err
	case t.failed.Load():
		p.Phase, p.Err = stopped, err
	case t.ctx.Err() != nil:
		p.Phase = releasing
	case p.Epoch == 0:
		p.Phase = claiming
	case !t.reading.Load():
		p.Phase = restoring
	case !t.isRebuilt.Load():
		p.Phase = replaying
	default:
		p.Phase = reading
	}
	return p
}
