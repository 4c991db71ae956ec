package pipeline

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

// watch is a partition's time, which passes with ticks and so only while the
// worker hears from the server and keeps up with its input. It decides when to
// ask for the end of a silent stream, never that it ends: that is the log's.
// None of it is state.
type watch struct {
	now     time.Duration // at the last tick, since the shard began
	resumed time.Duration // silence counts from here: what was before, nobody listened to
	looked  time.Duration // when silent streams were last looked for
	asked   time.Duration // when the end event under way was published; 0 = none is
}

// observe lets a partition's time pass and asks for the end of what has been
// silent too long.
func (s *shard) observe(p *partition) error {
	quiet := s.silence(p)
	limit := quiet.Shortest()
	if limit == 0 || p.state.Done < p.state.ReplayTo || p.state.Skip > 0 {
		return nil
	}
	now, w := time.Since(s.pace.began), &p.watch
	if w.now == 0 || now-w.now > s.pace.lease { // just begun, or the server was away, or this worker was
		w.resumed = now
	}
	w.now = now
	if w.asked > 0 && now-w.asked < askAgain || now-w.looked < limit/idleParts {
		return nil
	}
	if w.asked > 0 {
		s.warn("end event of silent streams has not come back, asking again: may the stage publish to the input, and has the input room?", "partition", p.state.ID)
	}
	w.looked, w.asked = now, 0
	e := p.state.Silent(s.silence(p))
	if e.Empty() {
		return nil
	}
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("pipeline: end event: %w", err)
	}
	w.asked = now
	// What becomes of it shows when it comes back. An answer is not awaited.
	if err := p.owner.EndSilent(data); err != nil {
		w.asked = 0
		s.log.Debug("end event not published", "partition", p.state.ID, "err", err)
	}
	return nil
}

// silence is what silence asks for an end now.
func (s *shard) silence(p *partition) state.Silence {
	return state.Silence{Now: p.watch.now, Resumed: p.watch.resumed, End: s.pace.idle, Forget: s.pace.forget, Bytes: s.pace.idleBytes}
}
