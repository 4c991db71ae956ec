package baseline

// Series is one labeled series: samples of all channels, sample by sample.
type Series struct {
	Values []float32
	Class  int
}

// rows is the largest number of series in a computation. Larger batches are computed in
// parts of this size, which bounds memory. The value changes the results.
const rows = 32

// tape stores the results of a forward run over at most rows series for the backward run.
// Blocks of rows lie below each other, one per step; series are sorted from the longest
// to the shortest and end together, so that the active series of a step are its first
// rows.
type tape struct {
	series []Series
	steps  int
	height int    // rows of a block: the series, and up to three rows of padding
	live   []int  // active rows at each step, never decreasing
	states matrix // one more block: before and after every step; a row is the state, a 1, the sample
	a      matrix // activations (rnn, arnn: tanh; gru: z, r, y); backward: gradients of their arguments
	u      matrix // gru: h*U + c; backward: its gradient
	dh     matrix // one block: the gradient of the state
	back   matrix // one block: the gradient of the previous state
	scores matrix // one block: scores of the output layer, backward their gradient
	row    []float64
}

// block returns the first n rows of one step of m.
func (t *tape) block(m matrix, step, n int) matrix { return m.part(step*t.height, 0, n, m.cols) }

// load lays out the series, sorted by decreasing length.
func (t *tape) load(l layout, series []Series) {
	channels := l.Channels
	t.series, t.steps, t.height = series, len(series[0].Values)/channels, roundUp(len(series), 4)
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
