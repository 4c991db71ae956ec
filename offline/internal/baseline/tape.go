package baseline

import "github.com/eusn-stream/eusn-stream/internal/dense"

// Series is one labelled series: samples of all channels, one after the other.
type Series struct {
	Values []float32
	Class  int
}

// rows is how many series are computed at the same time. Larger batches are
// computed in parts of this size, which bounds memory. Its value changes the
// results.
const rows = 32

// tape is what a forward run over at most rows series leaves for the backward
// run. Blocks of rows are below each other, one per step; series are sorted
// from the longest to the shortest and end together, so that those under way
// at a step are its first rows.
type tape struct {
	series []Series
	steps  int
	live   []int        // rows under way at each step, not falling
	x      dense.Matrix // samples
	h      dense.Matrix // states, one block more: before and after every step
	a      dense.Matrix // activations (rnn, arnn: tanh; gru: z, r, y); backward: gradients of their arguments
	u      dense.Matrix // gru: h*U + c; backward: its gradient
	dh     dense.Matrix // one block: the gradient of the state
	back   dense.Matrix // one block: that of the state before
	scores dense.Matrix // one block: what the output layer says, backward its gradient
}

// block is the rows of one step of m that are under way.
func block(m dense.Matrix, step, n int) dense.Matrix { return m.Sub(step*rows, 0, n, m.Cols) }

// shape makes m a zero matrix of that size, in its old memory if that suffices.
func shape(m *dense.Matrix, height, width int) {
	n := height * width
	if cap(m.Data) < n {
		m.Data = make([]float64, n)
	} else {
		m.Data = m.Data[:n]
		clear(m.Data)
	}
	m.Rows, m.Cols, m.Stride = height, width, width
}

// load lays the series, sorted by falling length.
func (t *tape) load(s Spec, series []Series) {
	t.series, t.steps = series, len(series[0].Values)/s.Channels
	all, wide := t.steps*rows, s.gates()*s.Units
	shape(&t.x, all, s.Channels)
	shape(&t.h, all+rows, s.Units)
	shape(&t.a, all, wide)
	if s.Kind == GRU {
		shape(&t.u, all, wide)
	}
	shape(&t.dh, rows, s.Units)
	shape(&t.back, rows, s.Units)
	shape(&t.scores, rows, s.outputs())
	t.live = append(t.live[:0], make([]int, t.steps)...)
	for i, one := range series {
		first := t.steps - len(one.Values)/s.Channels
		for step := first; step < t.steps; step++ {
			t.live[step]++
			to := t.x.Row(step*rows + i)
			for c, v := range one.Values[(step-first)*s.Channels:][:s.Channels] {
				to[c] = float64(v)
			}
		}
	}
}
