package state

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// slots are rows in memory and their holders: a short model of a shard with an engine
// and a store of state rows. Runs get their slots when their message is applied, and
// are computed when their batch ends, or earlier if a slot is needed and none is free.
type slots struct {
	t       testing.TB
	rows    [][2]uint32 // by slot. A row is a hash of the samples since the state's reset
	free    []int32
	most    int        // limit of slots; 0 = none
	nowhere bool       // rows cannot be stored apart
	chance  *rand.Rand // chooses the stream to evict, if most is set

	x       []float32 // of the batch
	runs    []placed  // runs not computed yet
	fetched []placed  // stored rows that the runs need; from is the index in apart
	holders []*Stream // streams with slots
	closed  []*Stream // streams whose sequences have ended in the batch
	leaving []int32   // free when the runs are computed
	apart   map[uint64][2]uint32

	evicted, failures int
}

// placed is a run with its slot.
type placed struct {
	slot     int32
	reset    bool
	from, to int
	made     *[]made // destination of the prediction; nil = no prediction
	next     made
}

var errNoSlot = errors.New("no slot")

// placeRow gives a stream's state a slot, and the stored row if there is one.
func (s *slots) placeRow(st *Stream, phase int, reset bool) error {
	slot, err := s.takeSlot()
	if err != nil {
		return err
	}
	st.Slots[phase] = slot
	if !st.IsAway(phase) {
		return nil
	}
	if !reset {
		s.fetched = append(s.fetched, placed{slot: slot, from: int(st.Away[phase].Seq)})
	}
	st.ForgetStored(phase)
	return nil
}

func (s *slots) takeSlot() (int32, error) {
	if slot, ok := s.popFree(); ok {
		return slot, nil
	}
	s.computeRuns()
	s.freeEnded()
	if slot, ok := s.popFree(); ok {
		return slot, nil
	}
	if !s.evictRow() {
		return 0, errNoSlot
	}
	slot, _ := s.popFree()
	return slot, nil
}

func (s *slots) popFree() (int32, bool) {
	if n := len(s.free); n > 0 {
		slot := s.free[n-1]
		s.free = s.free[:n-1]
		return slot, true
	}
	if s.most > 0 && len(s.rows) == s.most {
		return 0, false
	}
	s.rows = append(s.rows, [2]uint32{})
	return int32(len(s.rows) - 1), true
}

// evictRow makes room: it frees unneeded rows, or stores the rows of any stream. A
// shard evicts the stream used least recently; the model evicts by chance, because the
// choice must not matter.
func (s *slots) evictRow() bool {
	for _, st := range slices.Clone(s.holders) {
		if st.Source.Part.Holder.(*owner).failed {
			s.freeSlots(st)
		}
	}
	if s.freeEnded(); len(s.free) > 0 || s.nowhere {
		return len(s.free) > 0
	}
	st := s.holders[s.chance.IntN(len(s.holders))]
	for i, slot := range st.Slots {
		if slot >= 0 {
			s.putApart(st, i)
			s.evicted++
		}
	}
	s.removeHolder(st)
	return true
}

// putApart stores a row and frees its slot. The state does not change.
func (s *slots) putApart(st *Stream, phase int) {
	slot, seq := st.Slots[phase], uint64(len(s.apart)+1)
	s.apart[seq] = s.rows[slot]
	s.free = append(s.free, slot)
	st.PutAway(phase, wire.RowRef{Seq: seq, Hash: wire.HashOf(appendRow(s.rows[slot]))})
}

func appendRow(row [2]uint32) []byte { return AppendRowWords(nil, row[:]) }

// freeSlots takes all rows from a stream. The runs in hand still use the slots.
func (s *slots) freeSlots(st *Stream) {
	for i, slot := range st.Slots {
		if slot >= 0 {
			s.leaving, st.Slots[i] = append(s.leaving, slot), -1
		}
		if st.IsAway(i) {
			st.ForgetStored(i)
		}
	}
	s.removeHolder(st)
}

func (s *slots) markUsed(st *Stream) {
	if !slices.Contains(s.holders, st) {
		s.holders = append(s.holders, st)
	}
}

func (s *slots) removeHolder(st *Stream) {
	s.holders = slices.DeleteFunc(s.holders, func(o *Stream) bool { return o == st })
}

// computeRuns feeds the rows of the runs in hand.
func (s *slots) computeRuns() {
	s.t.Helper()
	for _, f := range s.fetched {
		row, there := s.apart[uint64(f.from)]
		if !there {
			s.t.Fatalf("no row %d is stored apart", f.from)
		}
		s.rows[f.slot] = row
	}
	for _, r := range s.runs {
		row := &s.rows[r.slot]
		if r.reset {
			*row = [2]uint32{}
		}
		h := hashSamples(uint64(row[0])|uint64(row[1])<<32, s.x[r.from:r.to]...)
		row[0], row[1] = uint32(h), uint32(h>>32)
		if r.made != nil {
			r.next.samples = h
			*r.made = append(*r.made, r.next)
		}
	}
	s.runs, s.fetched = s.runs[:0], s.fetched[:0]
}

// freeEnded frees the slots of ended sequences. No pending run uses such a slot.
func (s *slots) freeEnded() {
	for _, st := range s.closed {
		if st.InUse {
			continue
		}
		for i, slot := range st.Slots {
			if slot >= 0 {
				s.free, st.Slots[i] = append(s.free, slot), -1
			}
		}
		s.removeHolder(st)
	}
	s.free = append(s.free, s.leaving...)
	s.closed, s.leaving = s.closed[:0], s.leaving[:0]
}

// ReadRow is RowReader's.
func (s *slots) ReadRow(slot int32) ([]uint32, error) {
	if slices.Contains(s.free, slot) {
		return nil, fmt.Errorf("slot %d is free", slot)
	}
	return s.rows[slot][:], nil
}
