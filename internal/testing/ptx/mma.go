package ptx

import "math"

func init() {
	addForm("cvt.rna.tf32.f32", 2, each1(func(a uint32) uint32 {
		if a>>23&0xff == 0xff {
			return a
		}
		return (a + 1<<12) &^ (1<<13 - 1) // to nearest, ties away from zero
	}))
	addForm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 4, multiply)
}

// multiply is D = A B + C for a 16x8 matrix A, an 8x8 matrix B and 16x8 matrices C and D
// that the 32 lanes of a warp hold together, in the layout of the PTX manual for
// .m16n8k8.
//
// The accumulator and the eight products are added in float64 and the sum is truncated to
// float32: tensor cores round toward zero (M. Fasi, N. J. Higham, M. Mikaitis, S.
// Pranesh: Numerical behavior of NVIDIA tensor cores, PeerJ Computer Science 7:e330,
// 2021). A device may differ in the last bits: devices add in another order and drop low
// bits of the smaller terms.
func multiply(p *parser, o []operand) func(w *warp, mask uint32) {
	regs := func(o operand, n int, out bool) []int {
		if o.kind != isVector || len(o.vector) != n {
			p.fail("mma needs a vector of %d here", n)
		}
		r := make([]int, n)
		for i, v := range o.vector {
			if out {
				r[i] = 32 * p.outputRegister(v, word)
			} else {
				r[i] = 32 * p.inputRegister(v, word)
			}
		}
		return r
	}
	d, a, b, c := regs(o[0], 4, true), regs(o[1], 4, false), regs(o[2], 2, false), regs(o[3], 4, false)
	return func(w *warp, _ uint32) {
		var A [16][8]float64
		var B [8][8]float64
		value := func(reg, lane int) float64 {
			v := w.r[reg+lane]
			if v&(1<<13-1) != 0 {
				w.trap(lane, "operand %v has more bits than TF32", f32(v))
			}
			return float64(f32(v))
		}
		for lane := range 32 {
			g, k := lane/4, lane%4
			for i, reg := range a {
				A[g+i%2*8][k+i/2*4] = value(reg, lane)
			}
			for i, reg := range b {
				B[k+i*4][g] = value(reg, lane)
			}
		}
		for lane := range 32 {
			for i := range 4 {
				row, column := lane/4+i/2*8, lane%4*2+i%2
				s := float64(f32(w.r[c[i]+lane]))
				for k := range 8 {
					s += A[row][k] * B[k][column]
				}
				w.r[d[i]+lane] = u32(truncate(s))
			}
		}
	}
}

// truncate rounds toward zero.
func truncate(s float64) float32 {
	f := float32(s)
	if math.Abs(float64(f)) > math.Abs(s) {
		f = math.Float32frombits(math.Float32bits(f) - 1)
	}
	return f
}
