package pipeline

import (
	"context"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
)

// A partition given up waits for firstWait, twice as long each further time,
// mostWait at most. One that has worked for mostWait starts again.
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

// backOff notes that a partition was given up for err.
func (m *manager) backOff(p int, err error) {
	w := m.deferred[p]
	if w == nil {
		w = &deferral{}
		m.deferred[p] = w
	}
	w.err, w.wait = err, min(mostWait, max(firstWait, 2*w.wait))
	w.until = time.Now().Add(w.wait)
	m.run.counters.Deferred.Add(1)
	m.run.log.Warn("partition deferred: it is claimed again automatically", "partition", p, "in", w.wait, "err", err)
}

// isDeferred reports whether a partition that nobody works on is to be left alone
// still. A store of rows that does not answer is asked beside the work; only
// when it has done so it is relied on again.
func (m *manager) isDeferred(ctx context.Context, p int) bool {
	w := m.deferred[p]
	if w == nil {
		return false
	}
	if time.Now().Before(w.until) {
		return true
	}
	if m.run.server.Snaps.Mute.Load() {
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
		m.run.server.Snaps.ProbeRows(ctx, p, 4*m.run.shards[p%m.run.cfg.Shards].Machine.Shape.Words, m.run.log)
	})
}

// recovered forgets that a partition was given up once it has stood for as
// long as it would wait.
func (m *manager) recovered(p int, t *owner.Ownership) {
	if w := m.deferred[p]; w != nil && t.IsRebuilt() && time.Since(w.until) > mostWait {
		delete(m.deferred, p)
		m.run.log.Info("deferred partition works again", "partition", p)
	}
}
