package dense

// leaf is the order at which recursion ends. For smaller orders a product of matrices
// spends more on packing than it gains over the solve of a panel.
const leaf = 48

// half splits an order above leaf; multiples of leaf keep the tiles whole.
func half(n int) int { return max(leaf, n/2/leaf*leaf) }

// quarters cuts the lower triangle l after row and column h.
func quarters(l Matrix, h int) (l11, l21, l22 Matrix) {
	r := l.Rows - h
	return l.Sub(0, 0, h, h), l.Sub(h, 0, r, h), l.Sub(h, h, r, r)
}

// sides are the right-hand sides of a solve, the rows or columns of a matrix.
type sides interface {
	operand
	// unpack reverses pack, for the whole depth.
	unpack(src []float64, width, i0, n int)
}

// solveLeaf solves a small triangle for n right-hand sides, panel by panel: with l, or
// with l' from its last row up.
func solveLeaf(l Matrix, trans bool, b sides, n int) {
	width, last := active.width(), l.Rows-1
	runTasks(ceil(n, width), n*l.Rows*l.Rows/2, func(i int) {
		i *= width
		part := min(width, n-i)
		buffer := getBuffer()
		defer buffers.Put(buffer)
		x := aligned(buffer, l.Rows*width)
		b.pack(x, width, i, part, 0)
		if trans {
			active.solve(&x[last*width], -width, &l.Data[last*(l.Stride+1)], -1, -l.Stride, l.Rows)
		} else {
			active.solve(&x[0], width, &l.Data[0], l.Stride, 1, l.Rows)
		}
		b.unpack(x, width, i, part)
	})
}

// solve replaces b by inverse(l) * b, or from the right by b * inverse(l); with l' if trans.
// The half of b that depends on no other half comes first.
func solve(l, b Matrix, right, trans bool) {
	switch {
	case l.Rows <= leaf && right:
		solveLeaf(l, !trans, byRow{b}, b.Rows)
		return
	case l.Rows <= leaf:
		solveLeaf(l, trans, byColumn{b}, b.Cols)
		return
	}
	h := half(l.Rows)
	l11, l21, l22 := quarters(l, h)
	var b1, b2 Matrix
	if right {
		b1, b2 = b.Sub(0, 0, b.Rows, h), b.Sub(0, h, b.Rows, b.Cols-h)
	} else {
		b1, b2 = b.Sub(0, 0, h, b.Cols), b.Sub(h, 0, b.Rows-h, b.Cols)
	}
	if right != trans {
		l11, l22, b1, b2 = l22, l11, b2, b1
	}
	solve(l11, b1, right, trans)
	if right {
		Multiply(b2, -1, b1, false, l21, trans)
	} else {
		Multiply(b2, -1, l21, trans, b1, false)
	}
	solve(l22, b2, right, trans)
}

// SolveLower replaces b by inverse(l) * b, l lower triangular.
func SolveLower(l, b Matrix) { solve(l, b, false, false) }

// SolveLowerT replaces b by inverse(l') * b.
func SolveLowerT(l, b Matrix) { solve(l, b, false, true) }

// SolveRight replaces b by b * inverse(l).
func SolveRight(b, l Matrix) { solve(l, b, true, false) }

// SolveRightT replaces b by b * inverse(l').
func SolveRightT(b, l Matrix) { solve(l, b, true, true) }
