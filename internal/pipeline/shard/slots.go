package shard

import (
	"context"
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/stats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// slots are where a shard has the states of its streams: in the engine, or
// stored apart. They give runs their slots and compute them.
type slots struct {
	pool      *pool
	readouts  readouts
	words     int // of a state
	policy    reservoir.Policy
	residents residents
	store     *store.Snapshots // for states that find no slot; nil = none may be stored
	last      context.Context  // for the store: ends when a stop has taken too long
	stored    uint64           // rows so far
	closed    []*state.Stream  // whose slots may be free after the batch
	leaving   []int32          // slots that are free after the batch
	arrivals  []arrival        // stored rows that the runs in hand need
	usedSlots int              // as counted last
	follow    following        // nil but where features are wanted
	carry     carrying
	waves     waves
	counters  *stats.Counters
}

// following is who follows the runs of messages.
type following interface {
	// begin is told that the runs of another message come.
	beginMessage()
	// follows is told of a run, in order, and says whether it is to be computed. pred
	// is the next prediction of the answer.
	takesRun(b *Batch, r *state.Run, pred int) bool
}

// giveUpOn ends an ownership. What fails once a stop's time has run out says
// nothing of the partition.
func (s *slots) giveUpOn(p *Partition, err error) {
	if s.last.Err() != nil {
		err = store.ErrUnfinished
	}
	p.Owner.Fail(fmt.Errorf("partition %d: %w", p.State.ID, err))
}
