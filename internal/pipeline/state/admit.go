package state

import (
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/sequence"
)

// bulkShare limits the new streams of one message: MaxStreams/bulkShare. A full
// partition normally stops, because many producers together exceed the configured
// limit; a single message with more new streams than this share is an exception and
// becomes a dead letter.
const bulkShare = 16

// checkRoom refuses, before any change, a message with more new streams than the
// partition has room for. The decision depends only on the partition's messages and the
// configuration, so a replay repeats the decision.
func (s *Machine) checkRoom(m *step) error {
	keys := len(s.in.Keys)
	if keys <= max(1, s.MaxStreams/bulkShare) || m.p.recency.Len()+keys <= s.MaxStreams {
		return nil
	}
	s.sortByKey()
	return s.findRoom(m)
}

// findRoom visits the message's streams in the order of splitByStream: each stream
// without a place needs a free place, or the place of a stream between two sequences.
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
