package dense

import (
	"runtime"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// Matrix is a rectangular view: element (i, j) is Data[i*Stride+j]. Copies
// and sub-matrices share the data.
type Matrix struct {
	Rows, Cols int
	Data       []float64
	Stride     int
}

// New makes a zero matrix.
func New(rows, cols int) Matrix {
	return Matrix{Rows: rows, Cols: cols, Stride: cols, Data: make([]float64, rows*cols)}
}

// Row is row i, shared.
func (m Matrix) Row(i int) []float64 {
	return m.Data[i*m.Stride : i*m.Stride+m.Cols]
}

// Sub is the rows x cols block that begins at (i, j), shared.
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

// Multiply computes c += alpha * op(a) * op(b), op being the transpose where
// asked for. c shares no element with a or b. This is the one function whose
// speed decides every other speed here.
func Multiply(c Matrix, alpha float64, a Matrix, transA bool, b Matrix, transB bool) {
	if c.Rows == 0 || c.Cols == 0 || a.Rows == 0 || a.Cols == 0 {
		return
	}
	blas64.Gemm(op(transA), op(transB), alpha, blas64.General(a), blas64.General(b), 1, blas64.General(c))
}

func op(trans bool) blas.Transpose {
	if trans {
		return blas.Trans
	}
	return blas.NoTrans
}

// outerTile is the height of the strips AddOuter computes: high enough for
// Multiply to share its tiles among threads, low enough that the triangle
// wasted at the end of each strip is a few percent of the whole.
const outerTile = 256

// AddOuter computes the lower triangle of c += alpha * a * a'. c is square;
// above its diagonal anything may be left behind.
func AddOuter(c Matrix, alpha float64, a Matrix) {
	for i := 0; i < a.Rows; i += outerTile {
		h := min(outerTile, a.Rows-i)
		Multiply(c.Sub(i, 0, h, i+h), alpha, a.Sub(i, 0, h, a.Cols), false, a.Sub(0, 0, i+h, a.Cols), true)
	}
}

// Parallel calls f with the ranges of a partition of [0, n), none shorter
// than grain except the last, and returns when all are done. f must compute
// each index the same way whatever its range.
func Parallel(n, grain int, f func(lo, hi int)) {
	step := max(grain, (n+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0))
	var done sync.WaitGroup
	for lo := step; lo < n; lo += step {
		done.Go(func() { f(lo, min(n, lo+step)) })
	}
	f(0, min(n, step))
	done.Wait()
}
