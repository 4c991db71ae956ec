package baseline

// forward runs the loaded series and computes the scores of the output layer.
func (n *Network) forward() {
	t, l := &n.tape, n.layout
	for s, live := range t.live {
		before, a := t.block(t.states, s, live), t.block(t.a, s, live)
		after := t.block(t.states, s+1, t.height)
		after.part(live, 0, t.height-live, l.units).clear() // later series start in state 0
		t.block(t.a, s, t.height).clear()
		if l.Kind == GRU {
			u := t.block(t.u, s, live)
			t.block(t.u, s, t.height).clear()
			n.input.multiplyAdd(a, before.part(0, l.units, live, l.tail))
			n.ahead.multiplyAdd(u, before)
			d := l.units
			active.gruForward(table, a.data, a.data[d:], a.data[2*d:], u.data, u.data[d:], u.data[2*d:], a.stride,
				before.data, after.data, before.stride, d, live)
			continue
		}
		n.ahead.multiplyAdd(a, before)
		keep, gain := l.euler()
		active.eulerForward(table, a.data, a.stride, before.data, after.data, before.stride, keep, gain, l.units, live)
	}
	t.scores.clear()
	n.output.multiplyAdd(t.scores, t.block(t.states, t.steps, t.height))
}

// euler returns the factors of the state and of the tanh in rnn and arnn.
func (s Spec) euler() (keep, gain float32) {
	if s.Kind == ARNN {
		return 1, float32(s.Eps)
	}
	return 0, 1
}

// span is the number of step rows per product for the gradient of the weights: they stay
// in the first-level cache.
const span = 128

// backward adds the gradient of the loss to g; for arnn, the gradient of the matrix in
// place of the recurrent weights (see finishGradient). t.scores holds the gradient of the
// scores.
func (n *Network) backward(g *weights) {
	t, l := &n.tape, n.layout
	addTransposed(g.output, t.block(t.states, t.steps, t.height), t.scores)
	t.dh.clear()
	n.outputBack.multiplyAdd(t.dh, t.scores)
	argument := t.a // its gradient reaches the previous state through the matrix
	if l.Kind == GRU {
		argument = t.u
	}
	steps, end := max(1, span/t.height), t.steps
	for s := t.steps - 1; s >= 0; s-- {
		live := t.live[s]
		a, before := t.block(t.a, s, live), t.block(t.states, s, live)
		if l.Kind == GRU {
			u, d := t.block(t.u, s, live), l.units
			active.gruBackward(a.data, a.data[d:], a.data[2*d:], u.data, u.data[d:], u.data[2*d:], a.stride,
				before.data, before.stride, t.dh.data, t.back.data, t.dh.stride, d, live)
		} else {
			keep, gain := l.euler()
			active.eulerBackward(a.data, a.stride, t.dh.data, t.back.data, t.dh.stride, keep, gain, l.units, live)
		}
		for _, m := range []matrix{t.a, argument} {
			m.part(s*t.height+live, 0, t.height-live, m.cols).clear() // the remaining rows have no such step
		}
		if s > 0 {
			n.back.multiplyAdd(t.back.part(0, 0, live, l.units), t.block(argument, s, live))
		}
		t.dh, t.back = t.back, t.dh
		if s == 0 || end-s == steps {
			n.addRows(g, argument, s*t.height, (end-s)*t.height)
			end = s
		}
	}
}

// addRows adds the contribution of n rows of steps to the gradient of the recurrent and
// input weights.
func (n *Network) addRows(g *weights, argument matrix, from, rows int) {
	t, l := &n.tape, n.layout
	states := t.states.part(from, 0, rows, t.states.cols)
	addTransposed(g.cell, states, argument.part(from, 0, rows, l.wide))
	if l.Kind == GRU {
		addTransposed(g.input, states.part(0, l.units, rows, l.tail), t.a.part(from, 0, rows, l.wide))
	}
}

// finishGradient converts a gradient to the gradient of the weights: for arnn through W -
// W', and clears the rows of padding.
func (n *Network) finishGradient(g *weights) {
	l := n.layout
	if l.Kind == ARNN {
		for i := range l.units {
			row := g.cell.row(i)
			row[i] = 0
			for j := range i {
				other := &g.cell.row(j)[i]
				row[j] -= *other
				*other = -row[j]
			}
		}
	}
	if l.Kind == GRU {
		g.cell.part(l.units+1, 0, g.cell.rows-l.units-1, l.wide).clear()
	}
	g.output.part(l.units+1, 0, g.output.rows-l.units-1, l.outputs).clear()
}
