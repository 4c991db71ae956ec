package shard

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
)

const (
	// askAgain is the time after which an end event that has not come back is given up
	// as lost.
	askAgain = 2 * store.CommitTimeout
	// idleParts is into how many parts the shortest limit is divided to look
	// for silent streams.
	idleParts = 8
)

// watchSilence advances a partition's watch and requests the end of streams that were
// silent too long.
func (s *Shard) watchSilence(p *Partition) error {
	quiet := s.silenceOf(p)
	limit := quiet.Shortest()
	if limit == 0 || p.State.Done < p.State.ReplayTo || p.State.Skip > 0 {
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
		s.warnRarely("the end event of silent streams did not arrive in the input, resending it: check that the stage may publish to the input, and that the input has space", "partition", p.State.ID)
	}
	w.looked, w.asked = now, 0
	e := p.State.SilentStreams(s.silenceOf(p))
	if e.Empty() {
		return nil
	}
	e.Job = s.Machine.Events
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("pipeline: end event: %w", err)
	}
	w.asked = now
	// The effect is visible when the event comes back. No answer is awaited.
	if err := p.Owner.EndSilent(data); err != nil {
		w.asked = 0
		s.log.Debug("end event not published", "partition", p.State.ID, "err", err)
	}
	return nil
}

// silenceOf returns the silence limits at the current time.
func (s *Shard) silenceOf(p *Partition) state.Silence {
	return state.Silence{Now: p.watch.now, Resumed: p.watch.resumed, End: s.pace.idle, Forget: s.pace.forget, Bytes: s.pace.idleBytes}
}
