package shard

import (
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/judge"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// detecting says how unlike the training part sequences are, by a readout's detector.
type detecting struct {
	detector *novelty.Detector

	// Where the engine is not Judging:
	by     *judge.Scorer // nil until it is needed
	slots  []int32       // of the sequences in hand
	scores []float32     // of them
	inputs []float32     // of them, by.Inputs() each
	next   int           // the first that no prediction has
}

// scoredBy is a readout that the engine is to score.
func scoredBy(name string, l *readout.Linear) scored {
	s := scored{name: name, linear: l}
	if l.Novelty != nil {
		s.novel = &detecting{detector: l.Novelty}
	}
	return s
}

// scoreNovelty computes the novelty of the whole sequences that some runs end: of those that
// readout which answers, or of all where that is a shadow (which < 0).
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

// judgedBy is the score of emitting run i by the readout's detector, and what its inputs are
// like. It is called in the order of the runs. j is the engine, if it is Judging.
func (h *scored) judgedBy(j engine.Judging, i int) (score float32, inputs []float32) {
	if j != nil {
		return j.Judged(i, h.detector)
	}
	d := h.novel
	n := d.by.Inputs()
	d.next++
	return d.scores[d.next-1], d.inputs[(d.next-1)*n : d.next*n]
}

// detectNovelty computes the novelty of what the runs in hand end, after a call of an engine that
// has not judged them.
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

// NotJudged stands where the novelty of a shadow's prediction would: it is not of a whole
// sequence, and a detector learns from no others.
const NotJudged = -1

// hasDetector reports whether a prediction of a whole sequence by a readout needs a detector.
func (h *readouts) hasDetector(which int) bool {
	return h.all[which].novel != nil || slices.ContainsFunc(h.shadows, func(s scored) bool { return s.novel != nil })
}
