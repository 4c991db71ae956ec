package baseline

// Series is one labelled series: samples of all channels, one after the other.
type Series struct {
	Values []float32
	Class  int
}

// rows is the most series that are computed at the same time. Larger batches are
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
	height int    // rows of a block: the series, and up to three that are never under way
	live   []int  // rows under way at each step, not falling
	states matrix // one block more: before and after every step; a row is the state, a 1, the sample
	a      matrix // activations (rnn, arnn: tanh; gru: z, r, y); backward: gradients of their arguments
	u      matrix // gru: h*U + c; backward: its gradient
	dh     matrix // one block: the gradient of the state
	back   matrix // one block: that of the state before
	scores matrix // one block: what the output layer says, backward its gradient
	row    []float64
}

// block is the first n rows of one step of m.
func (t *tape) block(m matrix, step, n int) matrix { return m.part(step*t.height, 0, n, m.cols) }

// load lays the series, sorted by falling length.
func (t *tape) load(l layout, series []Series) {
	channels := l.Channels
	t.series, t.steps, t.height = series, len(series[0].Values)/channels, up(len(series), 4)
	all := t.steps * t.height
	shape(&t.states, all+t.height, l.units+l.tail)
	shape(&t.a, all, l.wide)
	if l.Kind == GRU {
		shape(&t.u, all, l.wide)
	}
	shape(&t.dh, t.height, l.units)
	shape(&t.back, t.height, l.units)
	shape(&t.scores, t.height, l.outputs)
	t.states.part(0, 0, t.height, l.units).clear()
	t.states.part(0, l.units, all+t.height, l.tail).clear()
	for i := range series {
		t.states.row(all + i)[l.units] = 1
	}
	t.live = append(t.live[:0], make([]int, t.steps)...)
	for i, one := range series {
		first := t.steps - len(one.Values)/channels
		for step := first; step < t.steps; step++ {
			t.live[step]++
			to := t.states.row(step*t.height + i)[l.units:]
			to[0] = 1
			copy(to[1:], one.Values[(step-first)*channels:][:channels])
		}
	}
}
