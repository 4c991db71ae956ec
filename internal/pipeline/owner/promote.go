package owner

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// askAgain is the first time after which a promotion not yet read from the input is
// treated as lost, mostPause the longest interval between later attempts: a partition
// with much input before the promotion only has to wait.
const (
	askAgain  = 2 * store.CommitTimeout
	mostPause = 10 * time.Minute
)

// PublishPromotion publishes the job's newest promotion into the partition's input,
// unless already there. First the partition's record must know the promotion, so that
// no program without promotions can own the partition at the arrival of the event. A
// single goroutine calls PublishPromotion, once per turn, with a loadable readout.
func (t *Ownership) PublishPromotion(newest wire.Promotion) {
	p := &t.promoting
	if t.epoch() == 0 || t.Failed() || t.w.Drain != nil || newest.Number == 0 {
		return
	}
	if p.wanted.Load() != newest.Number {
		p.wanted.Store(newest.Number)
		p.asked, p.pause = time.Time{}, askAgain
	}
	if p.isUnrecorded() || p.applied.Load() >= newest.Number || time.Since(p.asked) < p.pause {
		return
	}
	if !p.asked.IsZero() {
		p.pause = min(2*p.pause, mostPause)
		t.w.Log.Warn("a promotion did not arrive in the input, resending it: the partition has a long backlog, or the stage lacks the right to publish to the input, or the input is full", "partition", t.part.State.ID, "promotion", newest.Number)
	}
	data, err := json.Marshal(wire.PromoteEvent{Job: t.shard.Machine.Events, Begun: t.shard.Machine.Begun, Partition: t.part.State.ID, Promotion: newest})
	if err == nil {
		err = t.putEvent(wire.KindPromote, data)
	}
	if err != nil {
		t.w.Log.Debug("promotion not published", "partition", t.part.State.ID, "err", fmt.Errorf("owner: %w", err))
		return
	}
	p.asked = time.Now()
}
