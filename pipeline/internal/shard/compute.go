package shard

import (
	"fmt"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/stats"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// compute makes the engine take the runs in hand, and writes the scores into
// the batch's answers. The batch may continue.
func (s *slots) compute(b *Batch) error {
	s.fetch()
	start := time.Now()
	for k := range s.waves.most + 1 {
		runs, emits := s.waves.take(k, b.runs, b.emits)
		if err := s.advance(b, runs, emits); err != nil {
			return err
		}
	}
	if s.waves.most > 0 {
		for _, i := range b.Touched {
			slices.SortFunc(b.Answers[i].Carried, func(x, y Carried) int { return x.Pred - y.Pred })
		}
	}
	s.waves.done()
	b.runs, b.emits = b.runs[:0], b.emits[:0]
	return s.trim(start)
}

// advance is one engine call, and what the runs in it predict.
func (s *slots) advance(b *Batch, runs []reservoir.Run, emits []emit) error {
	width, from := s.pool.engine.ScoreWidth(), len(b.scores)
	b.scores = slices.Grow(b.scores, len(emits)*width)[:from+len(emits)*width]
	scores := b.scores[from:] // where the slice grew, those before keep the old array
	start := time.Now()
	if err := s.pool.engine.Advance(b.Fx.X, runs, scores); err != nil {
		return fmt.Errorf("pipeline: engine %s: %w", s.pool.engine.Name(), err)
	}
	took := int64(time.Since(start))
	s.counters.Spent.Engine.Add(took)
	if len(runs) > 0 {
		s.counters.StepTime.Add(stats.StepBounds, took)
	}
	if err := s.takeFeatures(b, emits); err != nil {
		return err
	}
	judging := s.pool.judging()
	if judging == nil {
		if err := s.detect(emits); err != nil {
			return fmt.Errorf("pipeline: %w", err)
		}
	}
	for i, e := range emits {
		p := &b.Answers[e.part].Preds[e.index]
		h := &s.heads.all[e.head]
		h.used = true
		l, from := h.of(p)
		p.Scores = scores[i*width+from:][:l.Columns()]
		p.Novelty, p.NoveltyP, p.Inputs = 0, 0, nil
		if h.novel != nil && e.whole {
			p.Novelty, p.Inputs = h.judged(judging, i)
			p.Inputs = b.keepInputs(p.Inputs)
			p.NoveltyP = h.linear.Detect(p.Scores, p.Novelty)
		}
		b.shadow(e, &s.heads, scores[i*width:], judging, i)
		class := l.Class(p.Scores)
		p.Class, p.Score, p.Probability = int32(class), Score(l, p.Scores, class), l.Probability(p.Scores)
		p.Number = NumberOf(h.linear, p.Scores)
		b.sets, p.Set = SetOf(b.sets, l, p.Scores)
		Decide(p, h.linear, b.Answers[e.part].Length[e.index])
	}
	return nil
}

// takeFeatures reads those that predictions carry, after an engine call.
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

// shadow keeps what the shadows say of a prediction, that of emitting run k. row are the
// engine's scores, judging is the engine if it is that.
func (b *Batch) shadow(e emit, h *heads, row []float32, judging reservoir.Judging, k int) {
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
		_, from := h.shadows[i].of(&a.Preds[e.index])
		copy(to[:columns], row[from:])
		to[columns] = NotJudged
		if h.shadows[i].novel != nil && e.whole {
			to[columns], _ = h.shadows[i].judged(judging, k)
		}
	}
}

// keepInputs is what inputs are like, for as long as the batch; nil where nothing is known.
func (b *Batch) keepInputs(inputs []float32) []float32 {
	if len(inputs) == 0 {
		return nil
	}
	from := len(b.inputs)
	b.inputs = append(b.inputs, inputs...) // where the slice grew, those before keep the old array
	return b.inputs[from:len(b.inputs):len(b.inputs)]
}

// SetOf appends the set of a prediction to sets, where the readout makes any, and is
// also the set alone; nil where it makes none.
func SetOf(sets []int32, l *readout.Linear, scores []float32) (all, set []int32) {
	if l.Coverage == nil {
		return sets, nil
	}
	if sets == nil {
		sets = make([]int32, 0, len(l.Classes)) // an empty set is not nil
	}
	from := len(sets)
	sets = l.AppendSet(sets, scores) // where the slice grew, those before keep the old array
	return sets, sets[from:len(sets):len(sets)]
}

// Decide says whether a prediction, whose probability is there, is an answer; and of an
// early one whether its class may change, and whether the samples suffice, by the rules
// of the readout that scored it, if that has any.
func Decide(p *codec.Prediction, l *readout.Linear, samples int64) {
	p.Change, p.Flags = 0, p.Flags&^(codec.FlagDecided|codec.FlagAbstain)
	early := p.Flags&codec.FlagEarly != 0
	if l.For(early).Abstains(p.Probability) {
		p.Flags |= codec.FlagAbstain
	}
	if !early {
		return
	}
	var decided bool
	if p.Change, decided = l.Change(samples, p.Scores); decided {
		p.Flags |= codec.FlagDecided
	}
}

// NumberOf is the number that a regression predicts.
func NumberOf(l *readout.Linear, scores []float32) codec.Number {
	if l.Interval == nil {
		return codec.Number{}
	}
	value, low, high := l.Number(scores)
	return codec.Number{Value: value, Low: low, High: high, Known: true}
}

// Score is the chosen class's. With two classes there is one column, the
// score of class 1; class 0's is its opposite. A regression's is its value.
func Score(l *readout.Linear, scores []float32, class int) float32 {
	if len(scores) == 1 {
		if class == 0 && l.Interval == nil {
			return -scores[0]
		}
		return scores[0]
	}
	return scores[class]
}

// releaseSlots frees the slots of sequences that have ended, after the engine
// call. The states of the streams may be ahead: of the runs that a message led
// to, some may have no slot yet.
func (s *slots) releaseSlots() {
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

func (s *slots) countSlots() {
	used := s.pool.used()
	s.counters.Slots.Add(int64(used - s.usedSlots))
	s.usedSlots = used
}
