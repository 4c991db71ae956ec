package pipeline

import (
	"sync/atomic"
	"time"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/state"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// partition is what a worker has of one partition: its state, and what the
// shard and the ownership must know of it besides.
type partition struct {
	state *state.Partition
	index int // among its shard's partitions
	owner *ownership

	open, rebuilt, over bool // the shard has installed it, replayed what it must, and dropped it
	watch
	sinceSnapshot int       // messages
	snapshotAt    time.Time // of the last one

	rebuiltSum wire.Digest // as it was compared with the record's
	instead    string      // of the snapshot, where that is lost

	inputView
}

// inputView is what is known of a partition's input beyond its messages.
type inputView struct {
	rests uint64                         // the message that predictions beyond replayTo are of, where the record says it
	empty atomic.Pointer[state.Interval] // there is no input of the partition behind message from, up to message to
	tell  atomic.Bool                    // the record is to say so
	told  atomic.Uint64                  // up to where it does
	doubt atomic.Bool                    // the input's beginning is near

	// For Status, which reads them beside the work.
	came    lastPlace    // of the input
	unread  atomic.Int64 // input messages that the server had when the last one came
	waiting atomic.Int64 // those that came and are not answered
}

func newPartition(id, index int) *partition { return partitionOf(state.NewPartition(id), index) }

func partitionOf(st *state.Partition, index int) *partition {
	p := &partition{state: st, index: index}
	p.state.Holder = p
	return p
}

// failed reports whether the partition is to take nothing more.
func (p *partition) failed() bool { return p.owner != nil && p.owner.failed.Load() }

// of is the partition that a stream belongs to.
func of(st *state.Stream) *partition { return st.Source.Part.Holder.(*partition) }
