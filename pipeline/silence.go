package pipeline

import (
	"fmt"
	"strings"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// silence does what an end event asks for.
func (s *shard) silence(m *message, j job) error {
	e, err := wire.ParseIdle(j.data, m.p.id, j.seq)
	if !strings.HasPrefix(j.key, wire.IdlePrefix) {
		err = fmt.Errorf("pipeline: header %s is %q on key %q: end events come under keys %sN, from the stage alone", wire.HeaderKind, wire.KindIdle, j.key, wire.IdlePrefix)
	}
	if err != nil {
		s.reject(m, j, wire.ReasonEvent, err)
		return nil
	}
	if m.p.asked > 0 {
		m.p.asked, m.p.looked = 0, 0 // the next may follow
	}
	for _, key := range e.Gaps {
		src := m.p.sources[key]
		if src == nil || src.heardIn > e.After || len(src.held) == 0 {
			continue
		}
		m.src = src
		m.p.touchSource(src)
		for len(src.held) > 0 {
			if err := s.giveUp(m); err != nil {
				return err
			}
		}
	}
	for _, n := range e.Streams {
		src := m.p.sources[n.Key]
		if src == nil || len(src.held) > 0 {
			continue
		}
		st := src.streams[n.Stream]
		if st == nil || st.heardIn > e.After {
			continue
		}
		if err := s.endSilent(m, st); err != nil {
			return err
		}
		if n.Forget {
			m.p.forgetStream(st, nil)
			s.counters.streams.Add(-1)
			s.counters.forgotten.Add(1)
		}
	}
	return nil
}

// endSilent ends a stream's open sequence. The stream counts as heard no more
// than before.
func (s *shard) endSilent(m *message, st *stream) error {
	if !st.seq.Open() {
		return nil
	}
	if !m.silent {
		s.counters.idle.Add(1)
	}
	m.p.touch(st)
	m.src, m.seq, m.end = st.source, 0, false
	s.cuts = st.seq.Silence(s.cuts[:0], &s.policy)
	s.missing = s.missing[:0]
	if len(s.cuts) == 0 { // no prediction: as if there had been no sample
		clear(st.flags)
		st.heard = false
		s.vacate(st)
		return nil
	}
	for i := range st.flags {
		st.flags[i] |= st.since | st.source.flags | codec.FlagIdle
	}
	for _, c := range s.cuts {
		if err := s.addRun(m, st, 0, group{}, c); err != nil {
			return err
		}
	}
	return nil
}

// vacate takes all rows from a stream, at once: a sample in the same batch
// needs only some of them again, and what the state is must not depend on the
// batch. The runs in hand still use the slots, which are free after them.
func (s *shard) vacate(st *stream) {
	for i, slot := range st.slots {
		if slot >= 0 {
			s.leaving, st.slots[i] = append(s.leaving, slot), -1
		}
		if st.isAway(i) {
			s.disown(st, i)
		}
	}
	s.residents.remove(st)
}
