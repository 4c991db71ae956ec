package shard

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/state"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
)

const (
	// askAgain is when an end event that has not come back is given up for
	// lost.
	askAgain = 2 * store.CommitTimeout
	// idleParts is into how many parts the shortest limit is divided to look
	// for silent streams.
	idleParts = 8
)

// Observe lets a partition's time pass and asks for the end of what has been
// silent too long.
func (s *Shard) Observe(p *Partition) error {
	quiet := s.Silence(p)
	limit := quiet.Shortest()
	if limit == 0 || p.State.Done < p.State.ReplayTo || p.State.Skip > 0 {
		return nil
	}
	now, w := time.Since(s.Pace.Began), &p.watch
	if w.Now == 0 || now-w.Now > s.Pace.lease { // just begun, or the server was away, or this worker was
		w.Resumed = now
	}
	w.Now = now
	if w.Asked > 0 && now-w.Asked < askAgain || now-w.looked < limit/idleParts {
		return nil
	}
	if w.Asked > 0 {
		s.warn("the end event of silent streams did not arrive in the input, sending it again: check that the stage may publish to the input, and that the input has space", "partition", p.State.ID)
	}
	w.looked, w.Asked = now, 0
	e := p.State.Silent(s.Silence(p))
	if e.Empty() {
		return nil
	}
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("pipeline: end event: %w", err)
	}
	w.Asked = now
	// What becomes of it shows when it comes back. An answer is not awaited.
	if err := p.Owner.EndSilent(data); err != nil {
		w.Asked = 0
		s.Log.Debug("end event not published", "partition", p.State.ID, "err", err)
	}
	return nil
}

// Silence is what silence asks for an end now.
func (s *Shard) Silence(p *Partition) state.Silence {
	return state.Silence{Now: p.watch.Now, Resumed: p.watch.Resumed, End: s.Pace.idle, Forget: s.Pace.forget, Bytes: s.Pace.IdleBytes}
}
