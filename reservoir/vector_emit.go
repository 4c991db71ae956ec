package reservoir

import (
	"math"
	"slices"
	"unsafe"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir/internal/kernel"
)

// linear is a readout arranged for the kernels, or several: their columns in vectors.
type linear struct {
	*readout.Linear                      // the first
	set             *kernel.Set          // whose kernels
	columns         int                  // of all
	blocks          []float32            // see packColumns; of several, packApart
	center          []float32            // zeros where the features come centred, because they are limited
	apart           *kernel.ApartKernels // nil: it is one
}

// packReadouts arranges readouts; those whose columns fit into one vector together are
// computed at once.
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

// setFor is the set to use for so many columns.
func setFor(set *kernel.Set, columns int) *kernel.Set {
	if set.Few != nil && columns <= set.Few.Vector {
		return set.Few
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

// packApart arranges several readouts: a vector of intercepts, then for each feature one of
// weights, one of centers and, where any limits, one of limits.
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
// vector of columns one vector of intercepts, then one of weights for each feature;
// columns that do not exist are zeros.
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

// limit is the features of states, each centred and limited, at the front of room.
func (h *linear) limit(set *kernel.Set, room, features []float32) []float32 {
	n := h.Features()
	for at := 0; at < len(features); at += n {
		set.Features.Limited(&room[at], &features[at], &h.Center[0], &h.Limit[0], n)
	}
	return room
}

// emission collects emitting streams, so that a readout's weights are read
// once for several.
type emission struct {
	v        *vectorPool
	features []float32 // features of kernel.Streams states, or of 1 where they are many
	limited  []float32 // the same, limited for one readout; none before one with limits
	room     int
	filled   int
	first    [kernel.Streams]int // where in the call's scores each one's go
	dst      []float32           // a vector for each
}

func (e *emission) init(v *vectorPool) {
	e.v, e.room = v, kernel.Streams
	if v.features > 1<<16 { // beyond the caches anyway
		e.room = 1
	}
	e.features = make([]float32, e.room*v.features)
	e.dst = kernel.Aligned(kernel.Streams * v.set.Vector)
}

// commit writes the scores of a tile's runs, whose states are as after them.
func (e *emission) commit(c *call, t *tile, runs []Run) {
	if !c.emits || e.v.width == 0 {
		return
	}
	for i := range runs {
		if r := &runs[i]; r.Emit {
			e.emit(c, e.v.state(r.Slot), int(c.score[t.runs[i]])*e.v.width)
		}
	}
	e.flush(c)
}

// emit takes in a state whose scores go to scores[first:]; flush must follow.
func (e *emission) emit(c *call, state []uint32, first int) {
	n := e.v.features
	e.v.featuresOf(state, e.features[e.filled*n:(e.filled+1)*n])
	e.first[e.filled] = first
	if e.filled++; e.filled == e.room {
		e.flush(c)
	}
}

// flush writes the scores of all streams taken in.
func (e *emission) flush(c *call) {
	v := e.v
	if e.filled == 0 {
		return
	}
	at := 0 // first of the readout's scores
	for i := range v.readouts {
		h := &v.readouts[i]
		vector, scores := h.set.Vector, h.set.ScoresOfMany
		if e.filled == 1 {
			scores = h.set.Scores
		}
		n, features := h.Features(), e.features[:e.filled*v.features]
		if h.apart != nil {
			scores := h.apart.Many
			if e.filled == 1 {
				scores = h.apart.One
			}
			scores(&e.dst[0], &h.blocks[vector], &h.blocks[0], &features[0], 4*n, n)
			e.copyTo(c.scores, at, h.columns, vector)
			at += h.columns
			continue
		}
		if h.Limit != nil {
			if e.limited == nil {
				e.limited = make([]float32, len(e.features)) // once
			}
			features = h.limit(v.set, e.limited, features)
		}
		for column := 0; column < h.columns; column += vector {
			block := h.blocks[column*(1+n):]
			scores(&e.dst[0], &block[vector], &block[0], &h.center[0], &features[0], 4*n, n)
			e.copyTo(c.scores, at+column, min(vector, h.columns-column), vector)
		}
		at += h.columns
	}
	e.filled = 0
}

// copyTo writes some columns of the streams taken in, which have a vector each, from one of
// each one's scores on.
func (e *emission) copyTo(scores []float32, at, columns, vector int) {
	for s, first := range e.first[:e.filled] {
		copy(scores[first+at:first+at+columns], e.dst[s*vector:])
	}
}

// floatsOf is the first n words as numbers.
func floatsOf(words []uint32, n int) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(&words[0])), n)
}

// wordsOf is the first of the values as a word.
func wordsOf(v []float32) *uint32 { return (*uint32)(unsafe.Pointer(&v[0])) }
