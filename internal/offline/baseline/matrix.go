package baseline

// matrix is a rectangular view of float32: element (i, j) is data[i*stride+j].
// Copies and parts share the data.
type matrix struct {
	rows, cols, stride int
	data               []float32
}

func (m matrix) row(i int) []float32 { return m.data[i*m.stride : i*m.stride+m.cols] }

// part returns the rows x cols block that begins at (i, j), with shared data.
func (m matrix) part(i, j, rows, cols int) matrix {
	return matrix{rows, cols, m.stride, m.data[i*m.stride+j:]}
}

func (m matrix) clear() {
	for i := range m.rows {
		clear(m.row(i))
	}
}

// shape sets the size of m, in its old memory if possible; the values are undefined. The
// stride is an odd number of vectors: rows below each other do not share the same few
// cache lines.
func shape(m *matrix, height, width int) {
	m.rows, m.cols, m.stride = height, width, (ceil(width, lanes)|1)*lanes
	if n := height * m.stride; cap(m.data) < n {
		m.data = make([]float32, n)
	} else {
		m.data = m.data[:n]
	}
}

// ceil returns n/d, rounded up.
func ceil(n, d int) int { return (n + d - 1) / d }

// roundUp rounds n up to a multiple of d.
func roundUp(n, d int) int { return ceil(n, d) * d }

// forPanels calls do with the first column and the number of vectors of each panel of
// columns, whole vectors: three vectors if no single vector remains, because a single
// vector cannot hide the latency of its multiply-adds.
func forPanels(columns int, do func(j, vectors int)) {
	for j, left := 0, columns/lanes; left > 0; {
		vectors := min(left, 3)
		if left == 4 {
			vectors = 2
		}
		do(j, vectors)
		j, left = j+vectors*lanes, left-vectors
	}
}

// packed is a right factor, panel by panel, each panel row by row.
type packed struct {
	depth, cols int
	data        []float32
}

func (p *packed) shape(depth, cols int) {
	p.depth, p.cols = depth, cols
	if cap(p.data) < depth*cols {
		p.data = make([]float32, depth*cols)
	}
	p.data = p.data[:depth*cols]
}

// pack fills p with m.
func (p *packed) pack(m matrix) {
	p.shape(m.rows, m.cols)
	forPanels(m.cols, func(j, vectors int) {
		width, to := vectors*lanes, p.data[j*p.depth:]
		for k := range m.rows {
			copy(to[k*width:][:width], m.row(k)[j:])
		}
	})
}

// packTransposed fills p with the transpose of m, whose rows are whole vectors.
func (p *packed) packTransposed(m matrix) {
	p.shape(m.cols, m.rows)
	forPanels(m.rows, func(j, vectors int) {
		width, to := vectors*lanes, p.data[j*p.depth:]
		for r := range width {
			for k, v := range m.row(j + r) {
				to[k*width+r] = v
			}
		}
	})
}

// multiplyAdd computes c += a*p, for rows of a of length p.depth. Rows are computed four
// at a time: up to three rows below c are overwritten.
func (p *packed) multiplyAdd(c, a matrix) {
	forPanels(p.cols, func(j, vectors int) {
		product(c.part(0, j, c.rows, vectors*lanes), a.data, a.stride, 1, p.data[j*p.depth:], vectors*lanes, p.depth)
	})
}

// addTransposed computes c += a'*b, for the number of rows of b. c has a multiple of four
// rows.
func addTransposed(c, a, b matrix) {
	forPanels(c.cols, func(j, vectors int) {
		product(c.part(0, j, c.rows, vectors*lanes), a.data, 1, a.stride, b.data[j:], b.stride, b.rows)
	})
}

// product computes, for a panel c of one to three vectors,
//
//	c[i,j] = fma(a[i*aRow+k*aCol], b[k*bStride+j], c[i,j])    k ascending, below depth
func product(c matrix, a []float32, aRow, aCol int, b []float32, bStride, depth int) {
	quads := ceil(c.rows, 4)
	if quads == 0 || depth == 0 {
		return
	}
	// The kernels check no arguments.
	_ = c.data[(4*quads-1)*c.stride+c.cols-1]
	_ = a[(4*quads-1)*aRow+(depth-1)*aCol]
	_ = b[(depth-1)*bStride+c.cols-1]
	active.product[c.cols/lanes-1](c.data, c.stride, a, aRow, aCol, b, bStride, depth, quads)
}
