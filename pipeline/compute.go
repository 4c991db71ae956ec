package pipeline

import (
	"fmt"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/stats"
)

// advance computes the batch and frees what has ended in it.
func (s *shard) advance(b *batch) error {
	if err := s.compute(b); err != nil {
		return err
	}
	s.counters.Batches.Add(1)
	if n := len(b.fx.X) / s.machine.Channels; n > 0 {
		s.counters.BatchRows.Add(stats.RowBounds, int64(n))
	}
	s.releaseSlots()
	return nil
}

// compute makes the engine take the runs in hand, and writes the scores into
// the batch's answers. The batch may go on.
func (s *shard) compute(b *batch) error {
	s.fetch()
	width, from := s.pool.engine.ScoreWidth(), len(b.scores)
	b.scores = slices.Grow(b.scores, len(b.emits)*width)[:from+len(b.emits)*width]
	scores := b.scores[from:] // where the slice grew, those before keep the old array
	start := time.Now()
	if err := s.pool.engine.Advance(b.fx.X, b.runs, scores); err != nil {
		return fmt.Errorf("pipeline: engine %s: %w", s.pool.engine.Name(), err)
	}
	took := int64(time.Since(start))
	s.counters.EngineNS.Add(took)
	if len(b.runs) > 0 {
		s.counters.StepTime.Add(stats.StepBounds, took)
	}
	for i, e := range b.emits {
		p := &b.answers[e.part].Preds[e.index]
		p.Scores = scores[i*width : (i+1)*width]
		class := s.head.Class(p.Scores)
		p.Class, p.Score, p.Probability = int32(class), score(p.Scores, class), s.head.Probability(p.Scores)
	}
	b.runs, b.emits = b.runs[:0], b.emits[:0]
	return nil
}

// score is the chosen class's. With two classes there is one column, the
// score of class 1; class 0's is its opposite.
func score(scores []float32, class int) float32 {
	if len(scores) == 1 {
		if class == 0 {
			return -scores[0]
		}
		return scores[0]
	}
	return scores[class]
}

// releaseSlots frees the slots of sequences that have ended, after the engine
// call. The states of the streams may be ahead: of the runs that a message led
// to, some may have no slot yet.
func (s *shard) releaseSlots() {
	for _, st := range s.closed {
		if st.InUse { // a window, or it has begun again
			continue
		}
		for i, slot := range st.Slots {
			if slot >= 0 {
				s.pool.release(slot)
				st.Slots[i] = -1
			}
		}
		s.residents.remove(st)
	}
	for _, slot := range s.leaving {
		s.pool.release(slot)
	}
	s.closed, s.leaving = s.closed[:0], s.leaving[:0]
	s.countSlots()
}

func (s *shard) countSlots() {
	used := s.pool.used()
	s.counters.Slots.Add(int64(used - s.usedSlots))
	s.usedSlots = used
}
