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
	heardIn   uint64        // last input message that reached it
	HeardTime time.Duration // when that was, by the partition's watch; no part of the state
	track.Track
	Slots []int32       // one per state: where its owner has the row; -1 = nowhere
	Away  []wire.RowRef // one per state, where the row is stored apart; nil = none ever was
	Rows  [][]uint32    // one per state, from a snapshot, until they are in slots

	last
	told bool // of samples unlike the training's, since the last sequence without; no part of the state

	InUse        bool    // its owner's: a sequence is open behind the last run that has a slot
	Newer, Older *Stream // its owner's list of those with slots, by their last use

	hash        wire.Digest // as counted in the partition's
	dirty, gone bool
}

// last is where a stream's last sample was, and under which promotions its open
// sequences began.
type last struct {
	lastIn  uint64 // input message that let it in; no part of the state
	lastSeq uint64 // its Eusn-Seq
	lastRow uint32
	began   []uint64 // one per state: the promotion under which its sequence began; nil = before any. No part of the digest
}

// IsAway reports whether the row of one of a stream's states is stored apart.
func (st *Stream) IsAway(state int) bool { return st.Away != nil && st.Away[state].Seq > 0 }

// PutAway notes that the row of one of a stream's states is stored apart.
func (st *Stream) PutAway(state int, ref wire.RowRef) {
	if st.Away == nil {
		st.Away = make([]wire.RowRef, len(st.Slots))
	}
	st.Away[state], st.Slots[state] = ref, -1
	p := st.Source.Part
	p.Away++
	p.Unnamed = true
}

// ForgetStored lets go of a stored row: what the state is from now on does not name
// it. Older snapshots may; it is deleted when none does.
func (st *Stream) ForgetStored(state int) {
	p := st.Source.Part
	p.Freed = append(p.Freed, st.Away[state].Seq)
	p.Away--
	st.Away[state] = wire.RowRef{}
}

// canForget reports whether a stream is between two sequences and nothing
// waits for it. Whether its slot is free again depends on the batch, and must
// not decide.
func (st *Stream) canForget() bool { return !st.Seq.Open() && len(st.Source.Held) == 0 }
