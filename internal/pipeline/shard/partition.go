package shard

import (
	"sync/atomic"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Partition is what a shard has of one partition: its state, and what the
// shard must know besides.
type Partition struct {
	State *state.Partition
	index int   // among its shard's partitions
	Owner owner // nil: a shard by itself, as in tests

	// Waiting are the messages that came and are not answered yet: whoever
	// puts one into the shard's queue adds it, the shard and the emitter take
	// it off.
	Waiting atomic.Int64
	// Answered is the last message that is answered, with all before it. The claim begins it,
	// and the emitter moves it on.
	Answered atomic.Uint64

	open, rebuilt, over bool // the shard has installed it, replayed what it must, and dropped it
	watch
	sinceSnapshot int       // messages
	snapshotAt    time.Time // of the last one

	RebuiltSum wire.Digest // as it was compared with the record's
	Instead    string      // of the snapshot, where that is lost: what the state was rebuilt from
}

// owner is who has claimed a partition. Its shard asks it how far the states
// are stored, and tells it what it has done.
type owner interface {
	// Fail ends the ownership: nothing more of the partition is committed, and
	// Failed is true from then on. Every goroutine may call both.
	Fail(err error)
	Failed() bool
	// Claim is the worker's name, and the epoch of its claim.
	Claim() (worker string, epoch uint64)
	// Rebuilt tells that the state has everything that was answered before.
	Rebuilt()
	// Saving is how far the states are stored.
	Saving() Saving
	// Took tells that a snapshot of the state after input message seq was
	// taken, which names the stored rows in freed no more; upload says that it
	// goes with the next commit, and is not the last.
	NoteSnapshot(seq uint64, freed []uint64, upload bool)
	// EndSilent puts an end event into the partition's input.
	EndSilent(event []byte) error
}

// Saving is how far a partition's states are stored.
type Saving struct {
	Seq       uint64 // last input message of the snapshot in the record
	Uploading bool   // another one is on its way
	Lost      bool   // the one in the record is lost, and none waits to take its place
}

// NewPartition is the partition id without a state yet; index is its place among its
// shard's.
func NewPartition(id, index int) *Partition { return partitionOf(state.NewPartition(id), index) }

// partitionOf is a partition with a state.
func partitionOf(st *state.Partition, index int) *Partition {
	p := &Partition{State: st, index: index}
	p.State.Holder = p
	return p
}

// Failed reports whether the partition is to take nothing more.
func (p *Partition) Failed() bool { return p.Owner != nil && p.Owner.Failed() }

// failOwner ends the ownership; of a partition without an owner, it returns the fault.
func (p *Partition) failOwner(err error) error {
	if p.Owner == nil {
		return err
	}
	p.Owner.Fail(err)
	return nil
}

// partOf is the partition that a stream belongs to.
func partOf(st *state.Stream) *Partition { return st.Source.Part.Holder.(*Partition) }

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
