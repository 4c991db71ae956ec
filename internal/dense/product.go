package dense

import (
	"sync"
	"unsafe"
)

const (
	// Block is the length of the summed index that is packed at a time: a panel of 24
	// columns and a panel of 8 rows, 48 KiB, share the first-level cache. Every sum is
	// split there, so the value is part of the results.
	Block = 192

	// rowBlock is the largest number of rows per sweep over all columns: their packed
	// panels, 360 KiB, stay in the second-level cache. A multiple of every tile's width.
	rowBlock = 240

	// rowSpan is the largest number of rows packed at a time, 6 MiB: the limit of the
	// copy of a tall matrix. A multiple of rowBlock.
	rowSpan = 17 * rowBlock

	// worth is the number of multiply-adds that justifies a second thread (some 10 us).
	worth = 1 << 19
)

// product is a depth block of a matrix product, for a span of rows.
type product struct {
	tile  *tile
	c     Matrix
	alpha float64
	a, b  []float64 // packed panels of rows and columns, depth x width each
	depth int
	lower bool // leave out the tiles above the diagonal
}

// multiply computes c += alpha*a*b' over depth. For a == nil it computes the lower
// triangle of b*b': values of c above the diagonal are overwritten.
func multiply(c Matrix, alpha float64, a, b operand, depth int) {
	if c.Rows == 0 || c.Cols == 0 {
		return
	}
	buffer := getBuffer()
	defer buffers.Put(buffer)
	span := rowSpan
	if a == nil {
		span = c.Rows
	}
	for i0 := 0; i0 < c.Rows; i0 += span {
		p := product{tile: active, c: c.Sub(i0, 0, min(span, c.Rows-i0), c.Cols), alpha: alpha, lower: a == nil}
		for k0 := 0; k0 < depth; k0 += Block {
			p.depth = min(Block, depth-k0)
			p.pack(buffer, a, i0, b, k0)
			p.runProduct()
		}
	}
}

// buffers holds *[]float64 for packed panels: megabytes, and fresh memory costs more than
// filling the buffer.
var buffers sync.Pool

func getBuffer() *[]float64 {
	if b, ok := buffers.Get().(*[]float64); ok {
		return b
	}
	return new([]float64)
}

// aligned returns n float64 at a multiple of 64 bytes, in the given buffer.
func aligned(buffer *[]float64, n int) []float64 {
	if cap(*buffer) < n+7 {
		*buffer = make([]float64, n+7)
	}
	v := (*buffer)[:n+7]
	skip := -int(uintptr(unsafe.Pointer(&v[0]))/8) & 7
	return v[skip : skip+n]
}

// pack packs a, from row i0 on, and b into the buffer.
func (p *product) pack(buffer *[]float64, a operand, i0 int, b operand, k0 int) {
	width := p.tile.width()
	panel := width * p.depth
	cols, rows := ceil(p.c.Cols, width), ceil(p.c.Rows, width)
	if p.lower {
		rows = 0
	}
	all := aligned(buffer, (cols+rows)*panel)
	p.b, p.a = all[:cols*panel], all[cols*panel:]
	runTasks(cols+rows, 4*len(all), func(i int) {
		dst := all[i*panel : (i+1)*panel]
		if j := i * width; i < cols {
			b.pack(dst, width, j, min(width, p.c.Cols-j), k0)
		} else {
			j -= cols * width
			a.pack(dst, width, i0+j, min(width, p.c.Rows-j), k0)
		}
	})
	if p.lower {
		p.a = p.b
	}
}

// runProduct cuts c into blocks of rows, and if there are few into blocks of columns as well, so
// that every thread gets work. Large triangles go first.
func (p *product) runProduct() {
	width := p.tile.width()
	high := min(rowBlock, ceil(ceil(p.c.Rows, 8), width)*width)
	rows := ceil(p.c.Rows, high)
	wide := max(width, ceil(ceil(p.c.Cols, max(1, 8/rows)), width)*width)
	cols := ceil(p.c.Cols, wide)
	runTasks(rows*cols, p.c.Rows*p.c.Cols*p.depth, func(i int) {
		r, c := (rows-1-i/cols)*high, i%cols*wide
		p.block(r, min(p.c.Rows, r+high), c, min(p.c.Cols, c+wide))
	})
}

// block computes the tiles of rows r0.. and columns c0.., which begin panels.
func (p *product) block(r0, r1, c0, c1 int) {
	t, k, width := p.tile, p.depth, p.tile.width()
	var edge []float64
	for j := c0; j < c1; j += width {
		i := r0
		if p.lower && j > r0 {
			i = j // the panel of columns j is the panel of rows j
		}
		b := &p.b[j*k]
		for ; i < r1; i += t.lanes {
			a := &p.a[i/width*width*k+i%width]
			if i+t.lanes <= p.c.Rows && j+width <= p.c.Cols {
				t.run(&p.c.Data[i*p.c.Stride+j], p.c.Stride, p.alpha, a, b, k)
				continue
			}
			if edge == nil {
				edge = make([]float64, t.lanes*width)
			}
			part := p.c.Sub(i, j, min(t.lanes, r1-i), min(width, c1-j))
			whole := Matrix{t.lanes, width, edge, width}.Sub(0, 0, part.Rows, part.Cols)
			whole.copyFrom(part)
			t.run(&edge[0], width, p.alpha, a, b, k)
			part.copyFrom(whole)
		}
	}
}

func ceil(n, by int) int { return (n + by - 1) / by }
