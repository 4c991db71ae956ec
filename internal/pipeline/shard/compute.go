package shard

import (
	"fmt"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/stats"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// computeBatch makes the engine take the runs in hand, and writes the scores into
// the batch's answers. The batch may continue.
func (s *slots) computeBatch(b *Batch) error {
	s.requestRows()
	start := time.Now()
	for k := range s.waves.most + 1 {
		runs, emits := s.waves.takeWave(k, b.runs, b.emits)
		if err := s.advanceRows(b, runs, emits); err != nil {
			return err
		}
	}
	if s.waves.most > 0 {
		for _, i := range b.Touched {
			slices.SortFunc(b.Answers[i].Carried, func(x, y Carried) int { return x.Pred - y.Pred })
		}
	}
	s.waves.finishWaves()
	b.runs, b.emits = b.runs[:0], b.emits[:0]
	return s.unloadUnused(start)
}

// advanceRows makes an engine call and fills the predictions of the runs.
func (s *slots) advanceRows(b *Batch, runs []reservoir.Run, emits []emit) error {
	width, from := s.pool.engine.ScoreWidth(), len(b.scores)
	b.scores = slices.Grow(b.scores, len(emits)*width)[:from+len(emits)*width]
	scores := b.scores[from:] // if the slice grew, earlier predictions keep the old array
	start := time.Now()
	if err := s.pool.engine.Advance(b.Fx.X, runs, scores); err != nil {
		return fmt.Errorf("pipeline: engine %s: %w", s.pool.engine.Name(), err)
	}
	took := int64(time.Since(start))
	s.counters.Spent.Engine.Add(took)
	if len(runs) > 0 {
		s.counters.StepTime.AddValue(stats.StepBounds, took)
	}
	if err := s.takeFeatures(b, emits); err != nil {
		return err
	}
	judging := s.pool.judgingOf()
	if judging == nil {
		if err := s.detectNovelty(emits); err != nil {
			return fmt.Errorf("pipeline: %w", err)
		}
	}
	for i, e := range emits {
		p := &b.Answers[e.part].Preds[e.index]
		h := &s.readouts.all[e.readout]
		h.used = true
		l, from := h.readoutOf(p)
		row := scores[i*width:]
		a := &b.Answers[e.part]
		seen := readout.Seen{Samples: a.Length[e.index], Judged: h.novel != nil && e.whole, Statistics: a.StatisticsOf(e.index)}
		if seen.Judged {
			seen.Novelty, seen.Inputs = h.judgedBy(judging, i)
			seen.Inputs = b.keepInputs(seen.Inputs)
		}
		b.sets = h.linear.Answer(&p.Answer, row[from:][:l.Columns()], seen, b.sets)
		b.setShadow(e, &s.readouts, row, judging, i)
	}
	return nil
}

// takeFeatures reads the features that predictions carry, after an engine call.
func (s *slots) takeFeatures(b *Batch, emits []emit) error {
	n, e := s.carry.features, s.pool.engine
	for _, one := range emits {
		if !one.carry {
			continue
		}
		a := &b.Answers[one.part]
		from := len(a.features)
		a.features = slices.Grow(a.features, n)[:from+n]
		if err := e.Features(one.slot, a.features[from:]); err != nil {
			return fmt.Errorf("pipeline: engine %s: features: %w", e.Name(), err)
		}
		a.Carried = append(a.Carried, Carried{one.index, from})
	}
	return nil
}

// setShadow stores the shadows' scores of a prediction, made by emitting run k. row
// holds the engine's scores; judging is the engine if it is Judging.
func (b *Batch) setShadow(e emit, h *readouts, row []float32, judging engine.Judging, k int) {
	if len(h.shadows) != len(b.Shadows) { // refused since the batch began
		b.Refused, b.Shadows = b.Shadows, nil
	}
	if len(b.Shadows) == 0 {
		return
	}
	a, columns := &b.Answers[e.part], h.first.Columns()
	each := (columns + 1) * len(b.Shadows)
	if need := (e.index + 1) * each; need > len(a.Shadow) {
		a.Shadow = slices.Grow(a.Shadow, need-len(a.Shadow))[:need]
	}
	for i := range h.shadows {
		to := a.Shadow[e.index*each+i*(columns+1):]
		_, from := h.shadows[i].readoutOf(&a.Preds[e.index])
		copy(to[:columns], row[from:])
		to[columns] = NotJudged
		if h.shadows[i].novel != nil && e.whole {
			to[columns], _ = h.shadows[i].judgedBy(judging, k)
		}
	}
}

// keepInputs copies detector inputs for the lifetime of the batch; nil if there are
// none.
func (b *Batch) keepInputs(inputs []float32) []float32 {
	if len(inputs) == 0 {
		return nil
	}
	from := len(b.inputs)
	b.inputs = append(b.inputs, inputs...) // if the slice grew, earlier predictions keep the old array
	return b.inputs[from:len(b.inputs):len(b.inputs)]
}

// releaseSlots frees the slots of ended sequences after the engine call. The states of
// the streams may be ahead: some runs of a message may have no slot yet.
func (s *slots) releaseSlots() {
	for _, st := range s.closed {
		if st.InUse { // a window, or a new sequence has begun
			continue
		}
		for i, slot := range st.Slots {
			if slot >= 0 {
				s.pool.releaseSlot(slot)
				st.Slots[i] = -1
			}
		}
		s.residents.removeStream(st)
	}
	for _, slot := range s.leaving {
		s.pool.releaseSlot(slot)
	}
	s.closed, s.leaving = s.closed[:0], s.leaving[:0]
	s.countSlots()
}

func (s *slots) countSlots() {
	used := s.pool.usedSlots()
	s.counters.Slots.Add(int64(used - s.usedSlots))
	s.usedSlots = used
}
