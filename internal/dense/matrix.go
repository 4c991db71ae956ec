package dense

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Matrix is a rectangular view: element (i, j) is Data[i*Stride+j]. Copies
// and sub-matrices share the data.
type Matrix struct {
	Rows, Cols int
	Data       []float64
	Stride     int
}

// New returns a zero matrix.
func New(rows, cols int) Matrix {
	return Matrix{Rows: rows, Cols: cols, Stride: cols, Data: make([]float64, rows*cols)}
}

// Row returns row i, shared.
func (m Matrix) Row(i int) []float64 {
	return m.Data[i*m.Stride : i*m.Stride+m.Cols]
}

// Sub returns the rows x cols block that begins at (i, j), shared.
func (m Matrix) Sub(i, j, rows, cols int) Matrix {
	s := Matrix{Rows: rows, Cols: cols, Stride: m.Stride}
	if rows > 0 && cols > 0 {
		from := i*m.Stride + j
		s.Data = m.Data[from : from+(rows-1)*m.Stride+cols]
	}
	return s
}

// Clone copies m into fresh, contiguous storage.
func (m Matrix) Clone() Matrix {
	c := New(m.Rows, m.Cols)
	for i := range m.Rows {
		copy(c.Row(i), m.Row(i))
	}
	return c
}

// copyFrom fills m from a matrix of the same shape.
func (m Matrix) copyFrom(from Matrix) {
	for i := range m.Rows {
		copy(m.Row(i), from.Row(i))
	}
}

// Multiply computes c += alpha * op(a) * op(b), op being the transpose if trans is true.
// c shares no element with a or b.
func Multiply(c Matrix, alpha float64, a Matrix, transA bool, b Matrix, transB bool) {
	var left, right operand = byRow{a}, byColumn{b}
	depth := a.Cols
	if transA {
		left, depth = byColumn{a}, a.Rows
	}
	if transB {
		right = byRow{b}
	}
	multiply(c, alpha, left, right, depth)
}

// MultiplySamples computes c += alpha * op(s) * b.
func MultiplySamples(c Matrix, alpha float64, s Samples, trans bool, b Matrix) {
	if trans {
		multiply(c, alpha, bySample{s}, byColumn{b}, s.Rows)
		return
	}
	multiply(c, alpha, byFeature{s}, byColumn{b}, s.Cols)
}

// AddOuter computes the lower triangle of c += alpha * a * a'. c is square; values above
// its diagonal are undefined.
func AddOuter(c Matrix, alpha float64, a Matrix) {
	multiply(c, alpha, nil, byRow{a}, a.Cols)
}

// AddKernel computes the lower triangle of c += s * s'; above the diagonal as AddOuter.
func AddKernel(c Matrix, s Samples) { multiply(c, 1, nil, byFeature{s}, s.Cols) }

// AddGram computes the lower triangle of c += s' * s; above the diagonal as AddOuter.
func AddGram(c Matrix, s Samples) { multiply(c, 1, nil, bySample{s}, s.Rows) }

// Parallel calls f with the ranges of a partition of [0, n), none shorter than grain
// except the last, and returns after the last call. f must compute each index in the same
// way for every range.
func Parallel(n, grain int, f func(lo, hi int)) {
	step := max(grain, (n+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0))
	var done sync.WaitGroup
	for lo := step; lo < n; lo += step {
		done.Go(func() { f(lo, min(n, lo+step)) })
	}
	f(0, min(n, step))
	done.Wait()
}

// runTasks calls f with 0 to n-1, in this order but on a number of threads suited to the
// work, in multiply-adds, and returns after the last call. f must compute each task in
// the same way for any concurrent tasks.
func runTasks(n, work int, f func(i int)) {
	threads := min(n, runtime.GOMAXPROCS(0), 1+work/worth)
	if threads == 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int64
	worker := func() {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			f(i)
		}
	}
	var done sync.WaitGroup
	for range threads - 1 {
		done.Go(worker)
	}
	worker()
	done.Wait()
}
