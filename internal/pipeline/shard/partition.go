package shard

import (
	"sync/atomic"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Partition is a shard's data for one partition: the state, and the shard's
// bookkeeping.
type Partition struct {
	State *state.Partition
	index int   // index among the shard's partitions
	Owner owner // nil: a shard by itself, as in tests

	// Waiting counts the messages received and not yet answered: the sender into the
	// shard's queue adds, the shard and the emitter subtract.
	Waiting atomic.Int64
	// Answered is the last message up to which all messages are answered. The claim
	// sets Answered, and the emitter advances Answered.
	Answered atomic.Uint64

	open, rebuilt, over bool // the shard has installed, replayed and dropped the partition
	watch
	sinceSnapshot int       // messages
	snapshotAt    time.Time // of the last snapshot

	RebuiltSum wire.Digest // digest compared with the record
	Instead    string      // if the record's snapshot is lost: the snapshot that the state was rebuilt from
}

// owner is the holder of a partition's claim. The shard asks the owner which states are
// stored, and reports its own progress.
type owner interface {
	// Fail ends the ownership: nothing more of the partition is committed, and
	// Failed is true from then on. Every goroutine may call both.
	Fail(err error)
	Failed() bool
	// Claim returns the worker's name, and the epoch of its claim.
	Claim() (worker string, epoch uint64)
	// Rebuilt records that the state contains everything answered before.
	Rebuilt()
	// Saving is how far the states are stored.
	Saving() Saving
	// NoteSnapshot records that a snapshot of the state after input message seq was
	// taken, which no longer names the stored rows in freed; upload: the snapshot is
	// uploaded with the next commit, and is not the last.
	NoteSnapshot(seq uint64, freed []uint64, upload bool)
	// EndSilent puts an end event into the partition's input.
	EndSilent(event []byte) error
}

// Saving is how far a partition's states are stored.
type Saving struct {
	Seq       uint64 // last input message of the snapshot in the record
	Uploading bool   // another upload is in progress
	Lost      bool   // the record's snapshot is lost, and no replacement waits to be named
}

// NewPartition returns partition id without a state; index is the index among the
// shard's partitions.
func NewPartition(id, index int) *Partition { return partitionOf(state.NewPartition(id), index) }

// partitionOf is a partition with a state.
func partitionOf(st *state.Partition, index int) *Partition {
	p := &Partition{State: st, index: index}
	p.State.Holder = p
	return p
}

// Failed reports whether the partition is to take nothing more.
func (p *Partition) Failed() bool { return p.Owner != nil && p.Owner.Failed() }

// failOwner ends the ownership; for a partition without an owner, it returns the fault.
func (p *Partition) failOwner(err error) error {
	if p.Owner == nil {
		return err
	}
	p.Owner.Fail(err)
	return nil
}

// partOf returns the partition of a stream.
func partOf(st *state.Stream) *Partition { return st.Source.Part.Holder.(*Partition) }

// watch is a partition's time. It advances with ticks, and so only while the worker
// hears from the server and keeps up with its input. It decides only when to request
// the end of a silent stream; the log decides the end. The watch is no part of the
// state.
type watch struct {
	now     time.Duration // at the last tick, since the shard began
	resumed time.Duration // silence counts from here: earlier messages were not received
	looked  time.Duration // when silent streams were last looked for
	asked   time.Duration // when the end event under way was published; 0 = none is
}
