package dense

import (
	"math"
	"unsafe"
)

// tile is the innermost kernel: the sums of lanes rows by 3*lanes columns of a product,
// kept in registers over the whole depth.
type tile struct {
	name  string
	lanes int

	// run computes, with z starting at zero,
	//
	//	z    = fma(a[k*3*lanes+i], b[k*3*lanes+j], z)    k ascending, below depth
	//	c[i*stride+j] = fma(alpha, z, c[i*stride+j])
	//
	// without checks. depth is at least 1; stride counts float64.
	run func(c *float64, stride int, alpha float64, a, b *float64, depth int)

	// solve replaces a panel x of 3*lanes right-hand sides by solutions with
	// a triangle: for i ascending, below n, at least 1,
	//
	//	z = x[i*step+r]
	//	z = fma(-l[i*down+k*right], x[k*step+r], z)    k ascending, below i
	//	x[i*step+r] = z / l[i*(down+right)]
	//
	// Negative steps walk through a transposed triangle from its last row.
	solve func(x *float64, step int, l *float64, down, right, n int)

	// widen packs a panel of 3*lanes features of n samples, at least 1:
	//
	//	dst[k*3*lanes+j] = (src[k*stride+j] - center[j]) * scale[j]
	//
	// nil in the plain tile.
	widen func(dst *float64, src *float32, stride int, center, scale *float64, n int)

	// peak runs n rounds of peakChains multiply-adds of lanes float64: the reference of
	// run. nil in the plain tile.
	peak func(n int)
}

const peakChains = 12

// width returns a tile's columns, which is the number of rows or columns of a packed
// panel.
func (t *tile) width() int { return 3 * t.lanes }

// active is the fastest tile of this machine; all compute the same bits.
var active = tiles()[0]

// plainTile is the reference of the other tiles, and the tile without vector
// instructions.
var plainTile = tile{name: "plain", lanes: 2, run: runPlain, solve: solvePlain}

func runPlain(c *float64, stride int, alpha float64, a, b *float64, depth int) {
	const rows, cols = 2, 6
	as, bs := unsafe.Slice(a, (depth-1)*cols+rows), unsafe.Slice(b, depth*cols)
	var z00, z01, z02, z03, z04, z05 float64
	var z10, z11, z12, z13, z14, z15 float64
	for ; len(bs) >= cols; bs = bs[cols:] {
		b := (*[cols]float64)(bs)
		x := as[0]
		z00, z01, z02 = math.FMA(x, b[0], z00), math.FMA(x, b[1], z01), math.FMA(x, b[2], z02)
		z03, z04, z05 = math.FMA(x, b[3], z03), math.FMA(x, b[4], z04), math.FMA(x, b[5], z05)
		x = as[1]
		z10, z11, z12 = math.FMA(x, b[0], z10), math.FMA(x, b[1], z11), math.FMA(x, b[2], z12)
		z13, z14, z15 = math.FMA(x, b[3], z13), math.FMA(x, b[4], z14), math.FMA(x, b[5], z15)
		if len(as) > cols {
			as = as[cols:]
		}
	}
	for i, z := range [rows][cols]float64{{z00, z01, z02, z03, z04, z05}, {z10, z11, z12, z13, z14, z15}} {
		row := unsafe.Slice(c, i*stride+cols)[i*stride:]
		for j, v := range z {
			row[j] = math.FMA(alpha, v, row[j])
		}
	}
}

func solvePlain(x *float64, step int, l *float64, down, right, n int) {
	const size = unsafe.Sizeof(*x)
	row := func(i int) *[6]float64 { return (*[6]float64)(unsafe.Add(unsafe.Pointer(x), i*step*int(size))) }
	at := func(i, k int) float64 {
		return *(*float64)(unsafe.Add(unsafe.Pointer(l), (i*down+k*right)*int(size)))
	}
	for i := range n {
		z := row(i)
		for k := range i {
			v := -at(i, k)
			for r, y := range row(k) {
				z[r] = math.FMA(v, y, z[r])
			}
		}
		for r := range z {
			z[r] /= at(i, i)
		}
	}
}
