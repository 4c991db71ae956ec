package pipeline

import (
	"fmt"
	"slices"
	"time"
)

// adopt takes over a partition as its snapshot left it: its rows go into
// slots, the longest silent first, so that they are the first to leave where
// there are too many. The state is checked against the record that named it.
func (s *shard) adopt(b *batch, p *partition) error {
	p.open = true
	s.counters.streams.Add(int64(p.recency.Len())) // these, before anything can fail: drop takes all of them back
	s.counters.away.Add(int64(p.away))
	for _, src := range p.sources {
		src.part = p
		s.counters.parked.Add(int64(len(src.held)))
	}
	for e := p.recency.Back(); e != nil; e = e.Prev() {
		st := e.Value.(*stream)
		for i, row := range st.rows {
			if row == nil {
				continue
			}
			slot, err := s.slot(b)
			if err != nil {
				return s.yield(p, err)
			}
			st.slots[i] = slot
			s.residents.use(st)
			if err := s.pool.engine.WriteState(slot, row); err != nil {
				p.tenure.fail(fmt.Errorf("pipeline: partition %d: snapshot: state of stream %q: %w", p.id, st.id, err))
			}
			st.rows[i] = nil
		}
		st.rows = nil
	}
	s.countSlots()
	p.snapshotAt = time.Now()
	if err := s.rehash(p); err != nil {
		return err
	}
	if p.recast {
		if err := s.recast(p); err != nil {
			return err
		}
	}
	if err := s.check(p); err != nil {
		return err
	}
	p.stands()
	return nil
}

// recast gives the streams of a snapshot that was taken without remembered
// samples room for one, or takes theirs away: non_finite has changed to hold, or
// from it. Until a stream's next sample, what is missing is then held at the
// training data's mean. Where nothing is replayed, the record's digest is of the
// state as it was. A replay under another policy than the record's comes out
// with another digest, whose streams have other bytes.
func (s *shard) recast(p *partition) error {
	p.recast, p.unnamed = false, true
	if p.done >= p.verifyAt && p.sum == p.want {
		p.verifyAt = 0
	}
	for e := p.recency.Front(); e != nil; e = e.Next() {
		st := e.Value.(*stream)
		st.sample, st.heard = nil, false
		if s.shape.channels > 0 {
			st.sample = make([]float32, s.shape.channels)
		}
	}
	return s.recount(p)
}

// stands notes that a partition's state is rebuilt, once it is.
func (p *partition) stands() {
	if !p.rebuilt && p.tenure != nil && p.done >= p.replayTo && !p.failed() {
		p.rebuilt = true
		p.tenure.rebuilt.Store(true)
	}
}

// drop frees what a partition holds. Its last answer may still be under way.
func (s *shard) drop(p *partition) {
	for e := p.recency.Front(); e != nil; e = e.Next() {
		st := e.Value.(*stream)
		for _, slot := range st.slots {
			if slot >= 0 {
				s.pool.release(slot)
			}
		}
		s.residents.remove(st)
	}
	for _, src := range p.sources {
		s.counters.parked.Add(-int64(len(src.held)))
	}
	s.counters.away.Add(-int64(p.away))
	s.closed = slices.DeleteFunc(s.closed, func(st *stream) bool { return p.sources[st.source.key] == st.source })
	s.counters.streams.Add(-int64(p.recency.Len()))
	if p.done < p.replayTo {
		s.counters.replaying.Add(-1)
	}
	p.sources, p.over = nil, true
	p.recency.Init()
	s.countSlots()
}
