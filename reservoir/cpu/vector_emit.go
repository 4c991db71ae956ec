package cpu

import (
	"math"
	"slices"
	"unsafe"

	"github.com/eusn-stream/eusn-stream/internal/judge"
	"github.com/eusn-stream/eusn-stream/internal/kernel"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// linear is a readout arranged for the kernels, or several: their columns in vectors.
type linear struct {
	*readout.Linear                      // the first
	set             *kernel.Set          // its kernels
	columns         int                  // of all
	blocks          []float32            // see packColumns; of several, packApart
	center          []float32            // zeros if the features come centered, because they are limited
	apart           *kernel.ApartKernels // nil: a single readout
}

// packReadouts arranges readouts; readouts whose columns fit into one vector together
// are computed at once.
func packReadouts(readouts []*readout.Linear, set *kernel.Set) (packed []linear) {
	for len(readouts) > 0 {
		some, columns := 1, readouts[0].Columns()
		for set.Features.Apart != nil && some < len(readouts) && columns+readouts[some].Columns() <= set.Vector {
			columns += readouts[some].Columns()
			some++
		}
		if some == 1 {
			packed = append(packed, packReadout(readouts[0], setFor(set, columns)))
		} else {
			packed = append(packed, packApart(readouts[:some], columns, setFor(set, columns)))
		}
		readouts = readouts[some:]
	}
	return packed
}

// setFor returns the set for the given number of columns.
func setFor(set *kernel.Set, columns int) *kernel.Set {
	if few := set.Features.Few; few != nil && columns <= few.Vector {
		return few
	}
	return set
}

func packReadout(l *readout.Linear, set *kernel.Set) linear {
	h := linear{Linear: l, set: set, columns: l.Columns(), blocks: packColumns(l.Weights, l.Intercept, l.Features(), set.Vector), center: l.Center}
	if l.Limit != nil {
		h.center = make([]float32, l.Features())
	}
	return h
}

// packApart arranges several readouts: a vector of intercepts, then for each feature a
// vector of weights, of centers and, if any readout limits, of limits.
func packApart(list []*readout.Linear, columns int, set *kernel.Set) linear {
	n, vector, vectors := list[0].Features(), set.Vector, 2
	h := linear{Linear: list[0], set: set, columns: columns, apart: set.Features.Apart}
	if slices.ContainsFunc(list, func(l *readout.Linear) bool { return l.Limit != nil }) {
		h.apart, vectors = set.Features.LimitedApart, 3
	}
	h.blocks = kernel.Aligned(vector * (1 + vectors*n))
	lane := 0
	for _, l := range list {
		for c := range l.Columns() {
			h.blocks[lane] = l.Intercept[c]
			for f := range n {
				at := h.blocks[vector*(1+vectors*f)+lane:]
				at[0], at[vector] = l.Weights[c*n+f], l.Center[f]
				if l.Limit != nil {
					at[2*vector] = l.Limit[f]
				} else if vectors == 3 {
					at[2*vector] = float32(math.Inf(1))
				}
			}
			lane++
		}
	}
	return h
}

// packColumns arranges columns of weights, of n features each, for the kernels: for each
// vector of columns a vector of intercepts, then a vector of weights for each feature;
// missing columns are zeros.
func packColumns(weights, intercepts []float32, n, vector int) []float32 {
	columns := len(intercepts)
	blocks := kernel.Aligned((columns + vector - 1) / vector * vector * (1 + n))
	for c := range columns {
		block := blocks[c/vector*vector*(1+n):]
		block[c%vector] = intercepts[c]
		for f := range n {
			block[(1+f)*vector+c%vector] = weights[c*n+f]
		}
	}
	return blocks
}

// emission collects emitting streams, so that the weights of readouts and detectors are read
// once for several streams. Streams to judge are in the first rows, the others in the last.
type emission struct {
	v              *vectorPool
	features       []float32                // of kernel.Streams states, or of 1 if they are many
	limited        []float32                // the same, limited for one readout; none before a readout with limits
	stride         int                      // from a row to the next: whole vectors, zeros after the features
	room           int                      // rows,
	judged, others int                      // rows with a state, from the first and from the last on
	number         [kernel.Streams]int      // of each among the call's emitting runs
	states         [kernel.Streams][]uint32 // of the rows to judge
	dst            []float32                // a vector for each
	judge          judge.Judge
}

func (e *emission) init(v *vectorPool) {
	e.v, e.room, e.stride = v, kernel.Streams, v.set.WholeVectors(v.features)
	if v.features > 1<<16 { // beyond the caches anyway
		e.room = 1
	}
	e.features = kernel.Aligned(e.room * e.stride)
	e.dst = kernel.Aligned(kernel.Streams * v.set.Vector)
}

// commit adds the emitting runs of a tile, whose states are as after the runs.
func (e *emission) commit(c *call, t *tile, runs []reservoir.Run) {
	if !c.emits || e.v.width+e.v.judges == 0 {
		return
	}
	for i := range runs {
		if r := &runs[i]; r.Emit {
			e.emit(c, e.v.state(r.Slot), int(c.score[t.runs[i]]), r.Judge && e.v.judges > 0)
		}
	}
}

// emit adds a state, which must not change before flush. number counts the earlier
// emitting runs.
func (e *emission) emit(c *call, state []uint32, number int, judge bool) {
	row := e.room - 1 - e.others
	if judge {
		row = e.judged
		e.states[row] = state
		e.judged++
	} else {
		e.others++
	}
	e.number[row] = number
	e.v.featuresOf(state, e.row(e.features, row))
	if e.judged+e.others == e.room {
		e.flush(c)
	}
}

// row returns the features of one state.
func (e *emission) row(rows []float32, i int) []float32 { return rows[i*e.stride:][:e.v.features] }

// taken reports whether a row has a state.
func (e *emission) taken(row int) bool { return row < e.judged || row >= e.room-e.others }

// flush writes the scores of all streams taken in.
func (e *emission) flush(c *call) {
	if e.judged+e.others == 0 {
		return
	}
	together := e.v.beside != nil && e.judged > 0 && e.judged+e.others > 1
	at := 0 // first of the readout's scores
	for i := range e.v.readouts {
		h := &e.v.readouts[i]
		if i > 0 || !together {
			e.score(c, h, at)
		}
		at += h.columns
	}
	if e.judged > 0 {
		e.detect(c, together)
	}
	e.judged, e.others = 0, 0
}

// score writes the scores of a readout, or of several that are computed together, from
// place at of each stream's scores on.
func (e *emission) score(c *call, h *linear, at int) {
	n, vector, rows := h.Features(), h.set.Vector, e.features
	alone := e.judged+e.others == 1
	first := 0 // row
	if alone && e.others == 1 {
		first = e.room - 1
	}
	if h.apart != nil {
		scores := h.apart.Many
		if alone {
			scores = h.apart.One
		}
		scores(&e.dst[0], &h.blocks[vector], &h.blocks[0], &rows[first*e.stride], 4*e.stride, n)
		e.copyTo(c.scores, first, at, h.columns, vector)
		return
	}
	if h.Limit != nil {
		rows = e.limit(h)
	}
	scores := h.set.ScoresOfMany
	if alone {
		scores = h.set.Scores
	}
	for column := 0; column < h.columns; column += vector {
		block := h.blocks[column*(1+n):]
		scores(&e.dst[0], &block[vector], &block[0], &h.center[0], &rows[first*e.stride], 4*e.stride, n)
		e.copyTo(c.scores, first, at+column, min(vector, h.columns-column), vector)
	}
}

// limit is the features, each centered and limited for a readout.
func (e *emission) limit(h *linear) []float32 {
	if e.limited == nil {
		e.limited = kernel.Aligned(len(e.features)) // once
	}
	for i := range e.room {
		if e.taken(i) {
			h.set.Features.Limited(&e.row(e.limited, i)[0], &e.row(e.features, i)[0], &h.Center[0], &h.Limit[0], h.Features())
		}
	}
	return e.limited
}

// copyTo copies some columns of the added streams, which have a vector each from row first
// on, to place at of each stream's scores.
func (e *emission) copyTo(scores []float32, first, at, columns, vector int) {
	for i := range e.room {
		if e.taken(i) {
			to := e.number[i]*e.v.width + at
			copy(scores[to:to+columns], e.dst[(i-first)*vector:])
		}
	}
}

// detect writes the results of the detectors. Each detector overwrites the features.
// With together, the first detector also computes the scores of the first readout.
func (e *emission) detect(c *call, together bool) {
	at := 0 // first of the detector's values
	for k, d := range e.v.detectors {
		if together && k == 0 {
			e.detectBeside(c)
			at += 1 + d.Plain.InputValues()
			continue
		}
		if k > 0 {
			for i := range e.judged {
				e.v.featuresOf(e.states[i], e.row(e.features, i))
			}
		}
		e.judge.MakeRoom(d)
		e.judge.Multiply(d, e.features, e.stride, e.judged)
		for i := range e.judged {
			score, inputs := e.judge.Score(d, i)
			to := e.number[i]*e.v.judges + at
			c.judged[to] = score
			copy(c.judged[to+1:], inputs)
		}
		at += 1 + d.Plain.InputValues()
	}
}

// detectBeside writes the results of the first detector, and the scores of the first readout.
func (e *emission) detectBeside(c *call) {
	b := e.v.beside
	e.judge.MakeRoom(b.Detector)
	e.judge.MultiplyBeside(b, e.features, e.stride)
	for i := range e.room {
		if !e.taken(i) {
			continue
		}
		row := e.judge.Row(i)
		copy(c.scores[e.number[i]*e.v.width:], row[b.First:b.First+len(b.Start)])
		if i < e.judged {
			to := e.number[i] * e.v.judges
			score, inputs := e.judge.ScoreOf(b.Detector, i, row)
			c.judged[to] = score
			copy(c.judged[to+1:], inputs)
		}
	}
}

// floatsOf is the first n words as numbers.
func floatsOf(words []uint32, n int) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(&words[0])), n)
}

// wordsOf is the first of the values as a word.
func wordsOf(v []float32) *uint32 { return (*uint32)(unsafe.Pointer(&v[0])) }
