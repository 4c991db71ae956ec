package dense

// operand is a factor of a product, indexed by its free index i (a row of the left
// factor, a column of the right factor) and the summed index k.
type operand interface {
	// pack writes elements (i0+r, k0+l) to dst[l*width+r], for r below n and
	// l below len(dst)/width, and zeros for the r from n to width-1.
	pack(dst []float64, width, i0, n, k0 int)
}

// Samples is a matrix of float32 features, one row per sample, read as (x - Center) *
// Scale in float64: element (i, j) is (X[i*Stride+j] - Center[j]) * Scale[j]. Copies and
// parts share the data.
type Samples struct {
	Rows, Cols    int
	X             []float32
	Stride        int
	Center, Scale []float64 // Cols values each
}

// Sub returns the rows x cols block that begins at (i, j), shared. The block is not
// empty.
func (s Samples) Sub(i, j, rows, cols int) Samples {
	from := i*s.Stride + j
	return Samples{rows, cols, s.X[from : from+(rows-1)*s.Stride+cols], s.Stride, s.Center[j : j+cols], s.Scale[j : j+cols]}
}

// Four ways to read memory: the free index is the index of a row or of a column.
type (
	byRow     struct{ Matrix }  // i is the row, k the column
	byColumn  struct{ Matrix }  // i is the column, k the row
	byFeature struct{ Samples } // i is the sample, k the feature
	bySample  struct{ Samples } // i is the feature, k the sample
)

func (m byRow) pack(dst []float64, width, i0, n, k0 int) {
	depth := len(dst) / width
	row := func(r int) []float64 { return m.Row(i0 + r)[k0:][:depth] }
	r := 0
	for ; r+4 <= n; r += 4 { // four rows at a time, for fewer trips through dst
		x0, x1, x2, x3 := row(r), row(r+1), row(r+2), row(r+3)
		for l, v := range x0 {
			d := (*[4]float64)(dst[l*width+r:])
			d[0], d[1], d[2], d[3] = v, x1[l], x2[l], x3[l]
		}
	}
	for ; r < n; r++ {
		for l, v := range row(r) {
			dst[l*width+r] = v
		}
	}
	clearEnds(dst, width, n)
}

func (m byColumn) pack(dst []float64, width, i0, n, k0 int) {
	for l := range len(dst) / width {
		copy(dst[l*width:], m.Row(k0 + l)[i0:i0+n])
	}
	clearEnds(dst, width, n)
}

func (s byFeature) pack(dst []float64, width, i0, n, k0 int) {
	depth := len(dst) / width
	row := func(r int) []float32 { return s.X[(i0+r)*s.Stride+k0:][:depth] }
	center, scale := s.Center[k0:][:depth], s.Scale[k0:][:depth]
	r := 0
	for ; r+4 <= n; r += 4 {
		x0, x1, x2, x3 := row(r), row(r+1), row(r+2), row(r+3)
		for l, v := range x0 {
			d, m, f := (*[4]float64)(dst[l*width+r:]), center[l], scale[l]
			d[0], d[1] = (float64(v)-m)*f, (float64(x1[l])-m)*f
			d[2], d[3] = (float64(x2[l])-m)*f, (float64(x3[l])-m)*f
		}
	}
	for ; r < n; r++ {
		for l, v := range row(r) {
			dst[l*width+r] = (float64(v) - center[l]) * scale[l]
		}
	}
	clearEnds(dst, width, n)
}

func (s bySample) pack(dst []float64, width, i0, n, k0 int) {
	center, scale := s.Center[i0:i0+n], s.Scale[i0:i0+n]
	if t := active; t.widen != nil && n == t.width() && n == width {
		t.widen(&dst[0], &s.X[k0*s.Stride+i0], s.Stride, &center[0], &scale[0], len(dst)/width)
		return
	}
	for l := range len(dst) / width {
		from := (k0+l)*s.Stride + i0
		d := dst[l*width:][:n]
		for r, v := range s.X[from : from+n] {
			d[r] = (float64(v) - center[r]) * scale[r]
		}
	}
	clearEnds(dst, width, n)
}

func (m byRow) unpack(src []float64, width, i0, n int) {
	for r := range n {
		for l := range m.Row(i0 + r) {
			m.Row(i0 + r)[l] = src[l*width+r]
		}
	}
}

func (m byColumn) unpack(src []float64, width, i0, n int) {
	for l := range m.Rows {
		copy(m.Row(l)[i0:i0+n], src[l*width:])
	}
}

// clearEnds zeroes a packed row beyond n. Old numbers would reach no result; but they may
// be denormal, and multiplying denormal numbers is slow.
func clearEnds(dst []float64, width, n int) {
	if n == width {
		return
	}
	for ; len(dst) > 0; dst = dst[width:] {
		clear(dst[n:width])
	}
}
