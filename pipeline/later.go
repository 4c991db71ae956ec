package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// errLater gives a partition up without stopping it. The server refuses what
// it needs, or does not answer, and its shard's others may need nothing of the
// kind: it is claimed again from its last snapshot, after a while and again,
// until the cause is gone. Nothing was committed that rests on what failed.
var errLater = errors.New("tried again by itself")

// A partition given up waits for firstWait, twice as long each further time,
// mostWait at most. One that has worked for mostWait begins anew.
const (
	firstWait = time.Second
	mostWait  = 30 * time.Second
)

// deferral is that of a partition that was given up for a while, or was and is worked
// on again.
type deferral struct {
	err   error
	wait  time.Duration
	until time.Time
}

// putOff notes that a partition was given up for err.
func (m *manager) putOff(p int, err error) {
	w := m.later[p]
	if w == nil {
		w = &deferral{}
		m.later[p] = w
	}
	w.err, w.wait = err, min(mostWait, max(firstWait, 2*w.wait))
	w.until = time.Now().Add(w.wait)
	m.counters.deferred.Add(1)
	m.log.Warn("partition given up for now, to be claimed again", "partition", p, "in", w.wait, "err", err)
}

// isDeferred reports whether a partition that nobody works on is to be left alone
// still. A store of rows that does not answer is asked beside the work; only
// when it has done so it is relied on again.
func (m *manager) isDeferred(ctx context.Context, p int) bool {
	w := m.later[p]
	if w == nil {
		return false
	}
	if time.Now().Before(w.until) {
		return true
	}
	if m.snaps.mute.Load() {
		m.probe(ctx, p)
		return true
	}
	return false
}

// probe begins to ask the store of rows whether it answers, if nobody does.
func (m *manager) probe(ctx context.Context, p int) {
	if !m.probing.CompareAndSwap(false, true) {
		return
	}
	m.beside.Go(func() {
		defer m.probing.Store(false)
		m.snaps.probe(ctx, p, 4*m.shards[p%m.cfg.Shards].machine.Shape.Words, m.log)
	})
}

// recovered forgets that a partition was given up once it has stood for as
// long as it would wait.
func (m *manager) recovered(p int, t *tenure) {
	if w := m.later[p]; w != nil && t.rebuilt.Load() && time.Since(w.until) > mostWait {
		delete(m.later, p)
		m.log.Info("partition goes on", "partition", p)
	}
}

// refused reports whether the server has said no to a message: asking again at
// once is of no use.
func refused(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) || errors.Is(err, nats.ErrMaxPayload)
}

// unheard reports whether the server has no NATS stream that would take a
// message: it was deleted, or has no leader for now.
func unheard(err error) bool {
	return errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders)
}
