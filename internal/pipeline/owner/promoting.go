package owner

import (
	"sync/atomic"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// promoting is how far a partition follows the job's promotions. The manager
// says what is wanted, the emitter what the record has.
type promoting struct {
	wanted         atomic.Uint64 // the newest promotion of the job
	known, applied atomic.Uint64 // as in the record: wire.Promoted
	asked          time.Time     // when the event was published; the manager's
	pause          time.Duration // until it is published again; the manager's
}

// noteRecorded notes what the record says now.
func (p *promoting) noteRecorded(now wire.Promoted) {
	p.known.Store(now.Known)
	p.applied.Store(now.Number)
}

// isUnrecorded reports whether the record does not know of the newest promotion.
func (p *promoting) isUnrecorded() bool { return p.wanted.Load() > p.known.Load() }
