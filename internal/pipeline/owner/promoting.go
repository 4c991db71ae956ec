package owner

import (
	"sync/atomic"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// promoting tracks the progress of a partition with the job's promotions. The manager
// sets the wanted promotion, the emitter the recorded promotion.
type promoting struct {
	wanted         atomic.Uint64 // the newest promotion of the job
	known, applied atomic.Uint64 // as in the record: wire.Promoted
	asked          time.Time     // when the event was published; the manager's
	pause          time.Duration // until the next attempt; the manager's
}

// noteRecorded records the promotion in the record.
func (p *promoting) noteRecorded(now wire.Promoted) {
	p.known.Store(now.Known)
	p.applied.Store(now.Number)
}

// isUnrecorded reports whether the record lacks the newest promotion.
func (p *promoting) isUnrecorded() bool { return p.wanted.Load() > p.known.Load() }
