package pipeline

import (
	"errors"
	"time"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
)

// phase is what an ownership does; see pipeline.Phase.
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

// health is where an ownership stands; see pipeline.PartitionHealth.
type health struct {
	phase   phase
	err     error
	epoch   uint64
	lag     int64
	unsaved time.Time
	waiting string
}

// lag is how many input messages are stored but not answered, as far as is known.
func (t *ownership) lag() int64 { return max(0, t.input.unread.Load()) + max(0, t.part.Waiting.Load()) }

// health is how the partition stands.
func (t *ownership) health() health {
	p := health{epoch: t.epoch(), lag: t.lag(), unsaved: t.unsavedSince()}
	if w := t.waiting.Load(); w != nil && time.Since(w.since) > t.w.lease {
		p.waiting = w.why
	}
	err := t.err()
	switch {
	case errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrUnfinished):
		p.phase = claiming // again, if it still falls to this worker
	case errors.Is(err, store.ErrLater):
		p.phase, p.err = postponed, err
	case t.failed.Load():
		p.phase, p.err = stopped, err
	case t.ctx.Err() != nil:
		p.phase = releasing
	case p.epoch == 0:
		p.phase = claiming
	case !t.reading.Load():
		p.phase = restoring
	case !t.rebuilt.Load():
		p.phase = replaying
	default:
		p.phase = reading
	}
	return p
}
