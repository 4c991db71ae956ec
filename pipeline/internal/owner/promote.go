package owner

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// askAgain is when a promotion that has not come back is given up for lost.
const askAgain = 2 * store.CommitTimeout

// Promote brings the job's newest promotion into the partition's input, unless it
// is there. First the partition's record must know of it: then no program that
// knows no promotions can have the partition when the event comes. One goroutine
// calls it, once a turn, with a readout that can be had.
func (t *Ownership) Promote(newest wire.Promotion) {
	p := &t.promoting
	if t.epoch() == 0 || t.Failed() || t.w.Drain != nil || newest.Number == 0 {
		return
	}
	if p.wanted.Load() != newest.Number {
		p.wanted.Store(newest.Number)
		p.asked = time.Time{}
	}
	if p.unrecorded() || p.applied.Load() >= newest.Number || time.Since(p.asked) < askAgain {
		return
	}
	if !p.asked.IsZero() {
		t.w.Log.Warn("a promotion did not arrive in the input, sending it again: check that the stage may publish to the input, and that the input has space", "partition", t.part.State.ID, "promotion", newest.Number)
	}
	data, err := json.Marshal(wire.PromoteEvent{Job: t.shard.Machine.Events, Partition: t.part.State.ID, Promotion: newest})
	if err == nil {
		err = t.put(wire.KindPromote, data)
	}
	if err != nil {
		t.w.Log.Debug("promotion not published", "partition", t.part.State.ID, "err", fmt.Errorf("owner: %w", err))
		return
	}
	p.asked = time.Now()
}
