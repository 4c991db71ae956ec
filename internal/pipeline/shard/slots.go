package shard

import (
	"context"
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/stats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// slots manages the location of the states of a shard's streams: in the engine, or
// stored. The type gives runs slots and computes runs.
type slots struct {
	pool      *pool
	readouts  readouts
	words     int // of a state
	policy    reservoir.Policy
	residents residents
	store     *store.Snapshots // for states without a slot; nil = no store
	last      context.Context  // for the store: ends when a stop has taken too long
	stored    uint64           // rows stored so far
	closed    []*state.Stream  // streams whose slots may be free after the batch
	leaving   []int32          // slots free after the batch
	arrivals  []arrival        // stored rows that the pending runs need
	usedSlots int              // as counted last
	follow    following        // nil but where features are wanted
	carry     carrying
	waves     waves
	counters  *stats.Counters
}

// following observes the runs of messages.
type following interface {
	// beginMessage announces the runs of the next message.
	beginMessage()
	// takesRun observes a run, in order, and reports whether to compute the run. pred
	// is the next prediction of the answer.
	takesRun(b *Batch, r *state.Run, pred int) bool
}

// giveUpOn ends an ownership. An error after the end of a stop's time says nothing
// about the partition.
func (s *slots) giveUpOn(p *Partition, err error) {
	if s.last.Err() != nil {
		err = store.ErrUnfinished
	}
	p.Owner.Fail(fmt.Errorf("partition %d: %w", p.State.ID, err))
}
