package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/state"
)

// install takes over a partition as its snapshot left it: its rows go into
// slots, the longest silent first, so that they are the first to leave where
// there are too many. The state is checked against the record that named it.
func (s *shard) install(b *batch, p *partition) error {
	p.open = true
	s.counters.Streams.Add(int64(p.state.Len())) // these, before anything can fail: drop takes all of them back
	s.counters.Away.Add(int64(p.state.Away))
	for _, src := range p.state.Sources {
		src.Part = p.state
		s.counters.Parked.Add(int64(len(src.Held)))
	}
	for st := range p.state.Oldest() {
		for i, row := range st.Rows {
			if row == nil {
				continue
			}
			slot, err := s.slot(b)
			if err != nil {
				return s.failPartition(p, err)
			}
			st.Slots[i] = slot
			s.residents.use(st)
			if err := s.pool.engine.WriteState(slot, row); err != nil {
				p.owner.Fail(fmt.Errorf("pipeline: partition %d: snapshot: state of stream %q: %w", p.state.ID, st.ID, err))
			}
			st.Rows[i] = nil
		}
		st.Rows = nil
	}
	s.countSlots()
	p.snapshotAt = time.Now()
	if err := s.machine.Rehash(p.state, s); err != nil {
		return err
	}
	if err := s.machine.Recast(p.state, s); err != nil {
		return err
	}
	if err := s.check(p); err != nil {
		return err
	}
	p.markRebuilt()
	return nil
}

// check compares the state with what the commit record says of it, once it has
// come so far.
func (s *shard) check(p *partition) error {
	sum := p.state.Sum
	compared, err := s.machine.Check(p.state, s)
	if compared {
		p.rebuiltSum = sum
	}
	if err == nil {
		return nil
	}
	if wrong := (*state.Mismatch)(nil); errors.As(err, &wrong) {
		p.owner.Fail(fmt.Errorf("pipeline: partition %d: %w: "+
			"input between snapshot and record was removed or changed, or the record, the model's arithmetic, non_finite, reorder or max_streams differ%s; "+
			"nothing is predicted from a wrong state: put back the settings it had (they may change once the job was stopped in order), restore the job's streams, or begin a new job", p.state.ID, wrong, p.orOlder()))
		return nil
	}
	return err
}

// orOlder says what else may be different where a record does not say which
// form of the state its digest is of.
func (p *partition) orOlder() string {
	if p.state.Want.Version > 0 {
		return p.instead
	}
	return p.instead + ", or a program from before the first release wrote the record"
}

// markRebuilt notes that a partition's state is rebuilt, once it is.
func (p *partition) markRebuilt() {
	if !p.rebuilt && p.owner != nil && p.state.Done >= p.state.ReplayTo && !p.failed() {
		p.rebuilt = true
		p.owner.Rebuilt()
	}
}

// drop frees what a partition holds. Its last answer may still be under way.
func (s *shard) drop(p *partition) {
	for st := range p.state.Oldest() {
		for _, slot := range st.Slots {
			if slot >= 0 {
				s.pool.release(slot)
			}
		}
		s.residents.remove(st)
	}
	for _, src := range p.state.Sources {
		s.counters.Parked.Add(-int64(len(src.Held)))
	}
	s.counters.Away.Add(-int64(p.state.Away))
	s.closed = slices.DeleteFunc(s.closed, func(st *state.Stream) bool { return p.state.Sources[st.Source.Key] == st.Source })
	s.counters.Streams.Add(-int64(p.state.Len()))
	if p.state.Done < p.state.ReplayTo {
		s.counters.Replaying.Add(-1)
	}
	p.over = true
	p.state.Clear()
	s.countSlots()
}
