package pipeline

import (
	"context"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
)

// sweeper runs sweeps in parallel to the manager, one at a time.
type sweeper struct {
	due    bool      // claims were made since the last sweep
	looked time.Time // time of the last sweep of chunks
	done   chan struct{}
}

// sweepOrphans begins a due sweep: after claims, and now and then. Of a partition
// claimed lately nothing is swept yet, see internal/pipeline/owner/retire.go.
func (m *manager) sweepOrphans(ctx context.Context) {
	s := &m.sweeper
	if s.done != nil {
		select {
		case <-s.done:
			s.done = nil
		default:
			return
		}
	}
	pieces := time.Since(s.looked) >= store.SweepEvery
	if !s.due && !pieces || len(m.owned) == 0 {
		return
	}
	ours := map[int]store.Claim{}
	for p, t := range m.owned {
		claim, claimed, may := t.SweepableClaim()
		if !claimed {
			return // later
		}
		if may {
			ours[p] = claim
		}
	}
	s.due = false
	if pieces {
		s.looked = time.Now()
	}
	done := make(chan struct{})
	s.done = done
	m.beside.Go(func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(ctx, store.SweepEvery/2)
		defer cancel()
		m.run.server.Snaps.Sweep(ctx, ours, pieces, m.run.log)
	})
}
