package pipeline

import (
	"fmt"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// bulkShare is the part of MaxStreams that one message may bring in unasked.
// A full partition stops the stage, for then many producers together want
// more than was configured; one message with more new streams than this part
// is the exception and goes, by itself, to the dead letters.
const bulkShare = 16

// admits reports what one message alone asks for beyond all room, before it
// has changed anything: more state rows than a shard may ever hold, or more
// new streams than the partition has room for. It depends on the partition's
// messages and the configuration alone, as everything a replay repeats.
func (s *shard) admits(m *message) error {
	keys := len(s.in.Keys)
	rows, streams := keys*s.policy.States() > s.pool.max, keys > max(1, s.maxStreams/bulkShare) && m.p.recency.Len()+keys > s.maxStreams
	if !rows && !streams {
		return nil
	}
	s.sortByKey()
	if need := s.slotsFor(m.src); need > s.pool.max {
		return fmt.Errorf("pipeline: the message's %d streams take %d state rows, a shard has %d: split it, or raise max_slots", keys, need, s.pool.max)
	}
	if streams {
		return s.roomFor(m)
	}
	return nil
}

// slotsFor counts the state rows that the message's streams have once its
// samples are in, as if none of their sequences ended.
func (s *shard) slotsFor(src *source) int {
	if s.policy.Kind != reservoir.Window {
		return len(s.in.Keys)
	}
	need, states, hop := 0, int64(s.policy.States()), int64(s.policy.Hop)
	for k, id := range s.in.Keys {
		n := int64(s.first[k+1] - s.first[k])
		if st := src.streams[id]; st != nil {
			n += st.seq.n
		}
		need += int(min(states, (n+hop-1)/hop)) // one begins every hop samples
	}
	return need
}

// roomFor goes through the message's streams as spread will: one without a
// place needs one that is free, or that a stream between two sequences can
// leave.
func (s *shard) roomFor(m *message) error {
	fixed := 0 // streams that cannot be forgotten
	for e := m.p.recency.Front(); e != nil; e = e.Next() {
		if !e.Value.(*stream).forgettable() {
			fixed++
		}
	}
	fresh, full := 0, false
	for k, id := range s.in.Keys {
		var seq sequencer
		st := m.src.streams[id]
		if st != nil {
			seq = st.seq
		} else {
			fresh++
		}
		if st != nil && !st.forgettable() {
			fixed--
		} else {
			full = full || fixed >= s.maxStreams
		}
		s.cuts = seq.cut(s.cuts[:0], &s.policy, s.gather(m, k).samples)
		if seq.open() || len(m.src.held) > 0 {
			fixed++
		}
	}
	if full && fresh > max(1, s.maxStreams/bulkShare) {
		return fmt.Errorf("pipeline: the message brings in %d new streams, more than partition %d has room for (max_streams %d, %d of them in open sequences with it): split it, close sequences that have ended, or raise max_streams",
			fresh, m.p.id, s.maxStreams, fixed)
	}
	return nil
}
