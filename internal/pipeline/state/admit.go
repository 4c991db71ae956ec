package state

import (
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/sequence"
)

// bulkShare is the part of MaxStreams that one message may bring in unasked.
// A full partition stops, for then many producers together want
// more than was configured; one message with more new streams than this part
// is the exception and goes, by itself, to the dead letters.
const bulkShare = 16

// checkRoom reports what one message alone asks for beyond all room, before it
// has changed anything: more new streams than the partition has room for. It
// depends on the partition's messages and the configuration alone, as
// everything a replay repeats.
func (s *Machine) checkRoom(m *step) error {
	keys := len(s.in.Keys)
	if keys <= max(1, s.MaxStreams/bulkShare) || m.p.recency.Len()+keys <= s.MaxStreams {
		return nil
	}
	s.sortByKey()
	return s.findRoom(m)
}

// findRoom goes through the message's streams as spread will: one without a
// place needs one that is free, or that a stream between two sequences can
// leave.
func (s *Machine) findRoom(m *step) error {
	fixed := 0 // streams that cannot be forgotten
	for e := m.p.recency.Front(); e != nil; e = e.Next() {
		if !e.Value.(*Stream).canForget() {
			fixed++
		}
	}
	fresh, full := 0, false
	for k, id := range s.in.Keys {
		var seq sequence.Sequencer
		st := m.src.Streams[id]
		if st != nil {
			seq = st.Seq
		} else {
			fresh++
		}
		if st != nil && !st.canForget() {
			fixed--
		} else {
			full = full || fixed >= s.MaxStreams
		}
		s.cuts = seq.Cut(s.cuts[:0], &s.Policy, s.gatherGroup(m, k).Samples)
		if seq.Open() || len(m.src.Held) > 0 {
			fixed++
		}
	}
	if full && fresh > max(1, s.MaxStreams/bulkShare) {
		return fmt.Errorf("pipeline: the message starts %d new streams, but partition %d does not have space for so many (max_streams %d, %d of them with open sequences after this message): split it, close sequences that have ended, or raise max_streams",
			fresh, m.p.ID, s.MaxStreams, fixed)
	}
	return nil
}
