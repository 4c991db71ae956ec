package pipeline

import (
	"context"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
)

// A partition given up waits for firstWait, doubled after each failure, at most
// mostWait. A partition that has worked for mostWait restarts at firstWait.
const (
	firstWait = time.Second
	mostWait  = 30 * time.Second
)

// deferral is the pause of a partition that was given up, and the length of its next
// pause.
type deferral struct {
	err   error
	wait  time.Duration
	until time.Time
}

// backOff records that a partition was given up because of err.
func (m *manager) backOff(p int, err error) {
	w := m.deferred[p]
	if w == nil {
		w = &deferral{}
		m.deferred[p] = w
	}
	w.err, w.wait = err, min(mostWait, max(firstWait, 2*w.wait))
	w.until = time.Now().Add(w.wait)
	m.run.counters.Deferred.Add(1)
	m.run.log.Warn("partition deferred: the worker retries automatically", "partition", p, "in", w.wait, "err", err)
}

// isDeferred reports whether an idle partition must still wait. A row store without
// answers is probed in parallel to the work, and used only after a successful probe.
func (m *manager) isDeferred(ctx context.Context, p int) bool {
	w := m.deferred[p]
	if w == nil {
		return false
	}
	if time.Now().Before(w.until) {
		return true
	}
	if m.run.server.Snaps.Mute.Load() {
		m.probeRows(ctx, p)
		return true
	}
	return false
}

// probeRows starts a probe of the row store, if none is running.
func (m *manager) probeRows(ctx context.Context, p int) {
	if !m.probing.CompareAndSwap(false, true) {
		return
	}
	m.beside.Go(func() {
		defer m.probing.Store(false)
		m.run.server.Snaps.ProbeRows(ctx, p, 4*m.run.shards[p%m.run.cfg.Shards].Machine.Shape.Words, m.run.log)
	})
}

// resetDeferral resets a partition's pause after it has worked for as long as the next
// pause.
func (m *manager) resetDeferral(p int, t *owner.Ownership) {
	if w := m.deferred[p]; w != nil && t.IsRebuilt() && time.Since(w.until) > mostWait {
		delete(m.deferred, p)
		m.run.log.Info("deferred partition resumed", "partition", p)
	}
}
