package shard

import (
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/judge"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// detecting computes the distance of sequences from the training part, with a readout's
// detector.
type detecting struct {
	detector *novelty.Detector

	// If the engine is not Judging:
	by     *judge.Scorer // nil until needed
	slots  []int32       // of the sequences in hand
	scores []float32     // scores of the sequences
	inputs []float32     // inputs of the sequences, by.Inputs() each
	next   int           // index of the first score without a prediction
}

// scoredBy returns a readout for the engine to score.
func scoredBy(name string, l *readout.Linear) scored {
	s := scored{name: name, linear: l}
	if l.Novelty != nil {
		s.novel = &detecting{detector: l.Novelty}
	}
	return s
}

// scoreNovelty computes the novelty of the whole sequences that the runs end: of the
// sequences predicted by readout `which`, or of all sequences for a shadow (which < 0).
func (d *detecting) scoreNovelty(e reservoir.Engine, emits []emit, which int) error {
	if d.by == nil {
		d.by = judge.NewScorer(d.detector)
	}
	d.slots, d.next = d.slots[:0], 0
	for i := range emits {
		if emits[i].whole && (which < 0 || emits[i].readout == which) {
			d.slots = append(d.slots, emits[i].slot)
		}
	}
	d.scores = slices.Grow(d.scores[:0], len(d.slots))[:len(d.slots)]
	d.inputs = slices.Grow(d.inputs[:0], len(d.slots)*d.by.Inputs())[:len(d.slots)*d.by.Inputs()]
	return d.by.Score(d.scores, d.inputs, e, d.slots)
}

// judgedBy returns the score of emitting run i by the readout's detector, and the
// detector's inputs. Calls follow the order of the runs. j is the engine, if Judging.
func (h *scored) judgedBy(j engine.Judging, i int) (score float32, inputs []float32) {
	if j != nil {
		return j.Judged(i, h.detector)
	}
	d := h.novel
	n := d.by.Inputs()
	d.next++
	return d.scores[d.next-1], d.inputs[(d.next-1)*n : d.next*n]
}

// detectNovelty computes the novelty of the sequences that the pending runs end, after
// a call of an engine that is not Judging.
func (s *slots) detectNovelty(emits []emit) error {
	for i := range s.readouts.all {
		if d := s.readouts.all[i].novel; d != nil {
			if err := d.scoreNovelty(s.pool.engine, emits, i); err != nil {
				return err
			}
		}
	}
	for i := range s.readouts.shadows {
		if d := s.readouts.shadows[i].novel; d != nil {
			if err := d.scoreNovelty(s.pool.engine, emits, -1); err != nil {
				return err
			}
		}
	}
	return nil
}

// NotJudged stands for the novelty of a shadow's early prediction: a detector judges
// and learns only whole sequences.
const NotJudged = -1

// hasDetector reports whether a prediction of a whole sequence by a readout needs a detector.
func (h *readouts) hasDetector(which int) bool {
	return h.all[which].novel != nil || slices.ContainsFunc(h.shadows, func(s scored) bool { return s.novel != nil })
}
