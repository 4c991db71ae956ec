package state

import (
	"container/list"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/track"
)

// Stream is one source of sequences.
type Stream struct {
	ID        string
	Source    *Source
	element   *list.Element
	heardAt   uint64        // by the partition's clock
	heardIn   uint64        // last input message of the stream
	HeardTime time.Duration // arrival by the partition's watch; no part of the state
	track.Track
	Slots []int32       // one per state: the owner's slot of the row; -1 = none
	Away  []wire.RowRef // one per state: the location of the stored row; nil = never stored
	Rows  [][]uint32    // one per state, from a snapshot, until the rows are in slots

	last
	told bool // of samples unlike the training's, since the last sequence without; no part of the state

	InUse        bool    // the owner's: a sequence is open after the last run with a slot
	Newer, Older *Stream // the owner's list of streams with slots, by last use

	hash        wire.Digest // as counted in the partition's
	dirty, gone bool
}

// last is the position of a stream's last sample, and the promotions under which its
// open sequences began.
type last struct {
	lastIn  uint64 // input message that released the sample; no part of the state
	lastSeq uint64 // the sample's Eusn-Seq
	lastRow uint32
	began   []uint64 // one per state: the promotion under which its sequence began; nil = before any. No part of the digest
}

// IsAway reports whether the row of one state of a stream is stored outside the engine.
func (st *Stream) IsAway(state int) bool { return st.Away != nil && st.Away[state].Seq > 0 }

// PutAway records that the row of one state of a stream is stored at ref.
func (st *Stream) PutAway(state int, ref wire.RowRef) {
	if st.Away == nil {
		st.Away = make([]wire.RowRef, len(st.Slots))
	}
	st.Away[state], st.Slots[state] = ref, -1
	p := st.Source.Part
	p.Away++
	p.Unnamed = true
}

// ForgetStored drops a stored row: new snapshots no longer name the row. Older
// snapshots may; the row is deleted when no snapshot names it.
func (st *Stream) ForgetStored(state int) {
	p := st.Source.Part
	p.Freed = append(p.Freed, st.Away[state].Seq)
	p.Away--
	st.Away[state] = wire.RowRef{}
}

// canForget reports whether a stream is between two sequences and holds no message.
// Whether its slot is free depends on the batch, and must not decide.
func (st *Stream) canForget() bool { return !st.Seq.Open() && len(st.Source.Held) == 0 }
