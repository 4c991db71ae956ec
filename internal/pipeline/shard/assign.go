package shard

import (
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
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
		read, judge := false, false
		if r.Emit {
			var err error
			if read, judge, err = s.assignScores(b, a, next, *slot); err != nil {
				return err
			}
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

// assignScores assigns the scores of a slot to an answer's prediction. It reports
// whether the features are read after the engine call, and whether the engine judges
// them.
func (s *slots) assignScores(b *Batch, a *Answer, pred int, slot int32) (read, judge bool, err error) {
	p, which := &a.Preds[pred], 0
	if s.follow == nil { // a follower takes features, no scores
		if which, err = s.readoutIndex(p.Readout); err != nil { // after placeRow, which may compute
			return false, false, err
		}
	}
	whole := s.policy.Whole(p.Early())
	carry := whole && s.carry.carriesFeatures(p)
	b.emits = append(b.emits, emit{a.Part.index, pred, which, slot, carry, whole})
	if carry {
		b.carried += 4 * s.carry.features
	}
	judge = whole && s.follow == nil && s.readouts.hasDetector(which)
	return carry || judge && s.pool.judgingOf() == nil, judge, nil
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
