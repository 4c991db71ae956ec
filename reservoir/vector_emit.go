package reservoir

import (
	"math"
	"unsafe"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir/internal/kernel"
)

// readout is a readout arranged for the kernels: its columns in vectors.
type linear struct {
	*readout.Linear
	// For each vector of columns: one vector of intercepts, then one of
	// weights for each feature; columns that do not exist are zeros.
	blocks []float32
}

func packReadout(l *readout.Linear, vector int) linear {
	n, columns := l.Features(), l.Columns()
	h := linear{Linear: l, blocks: kernel.Aligned((columns + vector - 1) / vector * vector * (1 + n))}
	for c := range columns {
		block := h.blocks[c/vector*vector*(1+n):]
		block[c%vector] = l.Intercept[c]
		for f := range n {
			block[(1+f)*vector+c%vector] = l.Weights[c*n+f]
		}
	}
	return h
}

// emission collects emitting streams, so that a readout's weights are read
// once for several.
type emission struct {
	features []float32 // features of kernel.Streams states, or of 1 where they are many
	room     int
	filled   int
	first    [kernel.Streams]int // where in the call's scores each one's go
	dst      []float32           // a vector for each
}

func (e *emission) init(v *Vector) {
	e.room = kernel.Streams
	if v.features > 1<<16 { // beyond the caches anyway
		e.room = 1
	}
	e.features = make([]float32, e.room*v.features)
	e.dst = kernel.Aligned(kernel.Streams * v.set.Vector)
}

// emit takes in a state whose scores go to scores[first:]; flush must follow.
func (w *worker) emit(c *call, state []uint32, first int) {
	e := &w.emission
	n := w.v.features
	w.v.featuresOf(state, e.features[e.filled*n:(e.filled+1)*n])
	e.first[e.filled] = first
	if e.filled++; e.filled == e.room {
		w.flush(c)
	}
}

// flush writes the scores of all streams taken in.
func (w *worker) flush(c *call) {
	v, e := w.v, &w.emission
	if e.filled == 0 {
		return
	}
	vector, scores := v.set.Vector, v.set.ScoresOfMany
	if e.filled == 1 {
		scores = v.set.Scores
	}
	at := 0 // first of the readout's scores
	for i := range v.readouts {
		h := &v.readouts[i]
		n := h.Features()
		for column := 0; column < h.Columns(); column += vector {
			block := h.blocks[column*(1+n):]
			scores(&e.dst[0], &block[vector], &block[0], &h.Center[0], &e.features[0], 4*n, n)
			for s, first := range e.first[:e.filled] {
				copy(c.scores[first+at+column:first+at+h.Columns()], e.dst[s*vector:(s+1)*vector])
			}
		}
		at += h.Columns()
	}
	e.filled = 0
}

// featuresOf is Layout.FeaturesOf by vector kernels.
func (v *Vector) featuresOf(state []uint32, dst []float32) {
	l, n, set := &v.layout, v.units, v.set
	steps := l.Steps(state)
	if steps == 0 || steps > math.MaxInt32 { // Share's counts
		l.FeaturesOf(v.net.Spec, state, dst)
		return
	}
	count := float32(int64(steps))
	for r := range v.members {
		m := state[l.Member(r):]
		for _, f := range v.kept {
			out := &dst[0]
			switch f {
			case Last:
				copy(dst[:n], floatsOf(m[l.State:], n))
			case Mean:
				set.Mean(out, &m[l.SumHigh], &m[l.SumLow], n, count)
			case Positive:
				set.Share(out, &m[l.Positive], n, count)
			case Max:
				copy(dst[:n], floatsOf(m[l.Max:], n))
			case Std:
				set.Deviation(out, &m[l.SumHigh], &m[l.SumLow], &m[l.SquareHigh], &m[l.SquareLow], n, count)
			}
			dst = dst[n:]
		}
	}
}

// floatsOf is the first n words as numbers.
func floatsOf(words []uint32, n int) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(&words[0])), n)
}

// wordsOf is the first of the values as a word.
func wordsOf(v []float32) *uint32 { return (*uint32)(unsafe.Pointer(&v[0])) }
