package shard

import (
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// assignSlots gives the runs of a message their slots, and assigns the scores of its
// predictions, beginning with the answer's next prediction.
func (s *slots) assignSlots(b *Batch, a *Answer, next int) error {
	defer func() { // runs without a slot belong to a partition that has failed
		b.Fx.Runs, b.Fx.Extents = b.Fx.Runs[:0], b.Fx.Extents[:0]
	}()
	if s.follow != nil {
		s.follow.beginMessage()
	}
	for i := range b.Fx.Runs {
		r := &b.Fx.Runs[i]
		if s.follow != nil && !s.follow.takesRun(b, r, next) {
			if r.Emit {
				next++
			}
			continue
		}
		if r.Drop {
			s.freeSlots(r.Stream)
			continue
		}
		slot := &r.Stream.Slots[r.Phase]
		if *slot < 0 {
			if err := s.placeRow(b, r.Stream, int(r.Phase), r.Reset); err != nil {
				return err
			}
		}
		s.residents.markUsed(r.Stream)
		r.Stream.InUse = r.Open
		read, judge := false, false // read the features after the engine call; the engine judges
		if r.Emit {
			which, err := 0, error(nil)
			if s.follow == nil { // a follower takes features, no scores
				which, err = s.readoutIndex(a.Preds[next].Readout) // after placeRow, which may compute
			}
			if err != nil {
				return err
			}
			whole := s.policy.Whole(a.Preds[next].Flags&outcome.FlagEarly != 0)
			carry := whole && s.carry.carriesFeatures(&a.Preds[next])
			b.emits = append(b.emits, emit{a.Part.index, next, which, *slot, carry, whole})
			if carry {
				b.carried += 4 * s.carry.features
			}
			judge = whole && s.follow == nil && s.readouts.hasDetector(which)
			read = carry || judge && s.pool.judgingOf() == nil
			next++
		}
		b.runs = append(b.runs, reservoir.Run{Slot: *slot, Reset: r.Reset, Emit: r.Emit, Judge: judge, From: r.From, To: r.To})
		s.waves.addRow(*slot)
		if read {
			s.waves.readRow(*slot)
		}
		if r.End {
			s.closed = append(s.closed, r.Stream)
		}
	}
	return nil
}

// freeSlots takes all rows from a stream at once: a later sample in the same batch
// needs only some of the rows, and the state must not depend on the batch. Pending runs
// still use the slots, which are free afterwards.
func (s *slots) freeSlots(st *state.Stream) {
	for i, slot := range st.Slots {
		if slot >= 0 {
			s.leaving, st.Slots[i] = append(s.leaving, slot), -1
		}
		if st.IsAway(i) {
			s.forgetStored(st, i)
		}
	}
	s.residents.removeStream(st)
}
