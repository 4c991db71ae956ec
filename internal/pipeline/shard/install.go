package shard

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
)

// InstallPartition installs a partition from its snapshot: rows go into slots, the
// stream silent longest first, so that the rows of this stream leave first if slots run
// out. The state is checked against the record that names the snapshot.
func (s *Shard) InstallPartition(b *Batch, p *Partition) error {
	p.open = true
	s.counters.Streams.Add(int64(p.State.Len())) // count now, before any error: dropPartition subtracts all
	s.counters.Away.Add(int64(p.State.Away))
	for _, src := range p.State.Sources {
		src.Part = p.State
		s.counters.Parked.Add(int64(len(src.Held)))
	}
	for st := range p.State.Oldest() {
		for i, row := range st.Rows {
			if row == nil {
				continue
			}
			slot, err := s.findSlot(b)
			if err != nil {
				return s.failPartition(p, err)
			}
			st.Slots[i] = slot
			s.residents.markUsed(st)
			if err := s.pool.engine.WriteState(slot, row); err != nil {
				if err := p.failOwner(fmt.Errorf("pipeline: partition %d: snapshot: state of stream %q: %w", p.State.ID, st.ID, err)); err != nil {
					return err
				}
			}
			st.Rows[i] = nil
		}
		st.Rows = nil
	}
	s.countSlots()
	p.snapshotAt = time.Now()
	if err := s.Machine.UpdateDigest(p.State, s); err != nil {
		return err
	}
	if err := s.compareDigest(p); err != nil {
		return err
	}
	p.markRebuilt()
	return nil
}

// compareDigest compares the state with the commit record when the state reaches the
// record's position.
func (s *Shard) compareDigest(p *Partition) error {
	sum := p.State.Sum
	compared, err := p.State.CompareDigest()
	if compared {
		p.RebuiltSum = sum
	}
	if err == nil {
		return nil
	}
	if wrong := (*state.Mismatch)(nil); errors.As(err, &wrong) {
		return p.failOwner(fmt.Errorf("pipeline: partition %d: %w: "+
			"input between snapshot and record was removed or changed, or the record, the model's arithmetic, non_finite, reorder or max_streams differ%s; "+
			"no prediction is made from a wrong state: set these settings back (change them only after an orderly stop), restore the job's NATS streams, or start a new job", p.State.ID, wrong, p.Instead))
	}
	return err
}

// markRebuilt records the end of a partition's rebuild.
func (p *Partition) markRebuilt() {
	if !p.rebuilt && p.Owner != nil && p.State.Done >= p.State.ReplayTo && !p.Failed() {
		p.rebuilt = true
		p.Owner.Rebuilt()
	}
}

// dropPartition frees a partition's resources. The partition's last answer may still be
// in publication.
func (s *Shard) dropPartition(p *Partition) {
	for st := range p.State.Oldest() {
		for _, slot := range st.Slots {
			if slot >= 0 {
				s.pool.releaseSlot(slot)
			}
		}
		s.residents.removeStream(st)
	}
	for _, src := range p.State.Sources {
		s.counters.Parked.Add(-int64(len(src.Held)))
	}
	s.counters.Away.Add(-int64(p.State.Away))
	s.closed = slices.DeleteFunc(s.closed, func(st *state.Stream) bool { return p.State.Sources[st.Source.Key] == st.Source })
	s.counters.Streams.Add(-int64(p.State.Len()))
	if p.State.Done < p.State.ReplayTo {
		s.counters.Replaying.Add(-1)
	}
	p.over = true
	p.State.Clear()
	s.countSlots()
}
