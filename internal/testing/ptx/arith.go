package ptx

import (
	"math"
	"math/bits"

	"github.com/eusn-stream/eusn-stream/internal/canon"
)

func f32(u uint32) float32 { return math.Float32frombits(u) }
func u32(f float32) uint32 { return math.Float32bits(f) }

// The instructions' functions, after the PTX ISA manual, chapter 9.
func init() {
	addForm("mov.b32 mov.u32 mov.s32 mov.f32 mov.b16 mov.u16", 2, each1(func(a uint32) uint32 { return a }))
	addForm("cvt.u32.u16", 2, each1(func(a uint32) uint32 { return a & 0xffff }))
	addForm("cvt.u16.u32", 2, each1(func(a uint32) uint32 { return a & 0xffff }))
	addForm("neg.s32", 2, each1(func(a uint32) uint32 { return -a }))
	addForm("not.b32", 2, each1(func(a uint32) uint32 { return ^a }))
	addForm("abs.f32", 2, each1(func(a uint32) uint32 { return a &^ (1 << 31) }))
	addForm("neg.f32", 2, each1(func(a uint32) uint32 { return a ^ 1<<31 }))
	// Rounding a square root twice is exact: 53 bits are at least 2*24+2 (Figueroa, "When
	// is double rounding innocuous?", SIGNUM 1995).
	addForm("sqrt.rn.f32", 2, each1(func(a uint32) uint32 { return u32(float32(math.Sqrt(float64(f32(a))))) }))
	addForm("cvt.rn.f32.u32", 2, each1(func(a uint32) uint32 { return u32(float32(a)) }))
	addForm("cvt.rn.f32.s32", 2, each1(func(a uint32) uint32 { return u32(float32(int32(a))) }))

	addForm("add.s32 add.u32", 3, each2(func(a, b uint32) uint32 { return a + b }))
	addForm("sub.s32 sub.u32", 3, each2(func(a, b uint32) uint32 { return a - b }))
	addForm("mul.lo.s32 mul.lo.u32", 3, each2(func(a, b uint32) uint32 { return a * b }))
	addForm("mul.hi.u32", 3, each2(func(a, b uint32) uint32 { return uint32(uint64(a) * uint64(b) >> 32) }))
	addForm("div.u32", 3, each2(func(a, b uint32) uint32 { return divide(a, b) }))
	addForm("rem.u32", 3, each2(func(a, b uint32) uint32 { return a - b*divide(a, b) }))
	addForm("min.u32", 3, each2(func(a, b uint32) uint32 { return min(a, b) }))
	addForm("max.u32", 3, each2(func(a, b uint32) uint32 { return max(a, b) }))
	addForm("min.s32", 3, each2(func(a, b uint32) uint32 { return uint32(min(int32(a), int32(b))) }))
	addForm("max.s32", 3, each2(func(a, b uint32) uint32 { return uint32(max(int32(a), int32(b))) }))
	addForm("and.b32 and.b16", 3, each2(func(a, b uint32) uint32 { return a & b }))
	addForm("or.b32 or.b16", 3, each2(func(a, b uint32) uint32 { return a | b }))
	addForm("xor.b32 xor.b16", 3, each2(func(a, b uint32) uint32 { return a ^ b }))
	addForm("shl.b32", 3, each2(func(a, n uint32) uint32 { return a << n })) // Go's shifts clamp as PTX shifts do
	addForm("shr.u32", 3, each2(func(a, n uint32) uint32 { return a >> n }))
	addForm("shr.s32", 3, each2(func(a, n uint32) uint32 { return uint32(int32(a) >> n) }))
	addForm("add.rn.f32", 3, each2(func(a, b uint32) uint32 { return u32(f32(a) + f32(b)) }))
	addForm("sub.rn.f32", 3, each2(func(a, b uint32) uint32 { return u32(f32(a) - f32(b)) }))
	addForm("mul.rn.f32", 3, each2(func(a, b uint32) uint32 { return u32(f32(a) * f32(b)) }))
	addForm("div.rn.f32", 3, each2(func(a, b uint32) uint32 { return u32(f32(a) / f32(b)) }))
	addForm("min.f32", 3, each2(func(a, b uint32) uint32 { return minimum(a, b) }))
	addForm("max.f32", 3, each2(func(a, b uint32) uint32 { return minimum(a^1<<31, b^1<<31) ^ 1<<31 }))

	addForm("mad.lo.s32 mad.lo.u32", 4, each3(func(a, b, c uint32) uint32 { return a*b + c }))
	addForm("bfe.u32", 4, each3(func(a, at, n uint32) uint32 { return a >> (at & 255) & (1<<(n&255) - 1) }))
	addForm("fma.rn.f32", 4, fused)

	addForm("mov.b64 mov.u64 mov.s64 cvta.to.global.u64 cvta.global.u64 cvta.to.shared.u64", 2, each1(func(a uint64) uint64 { return a }))
	addForm("neg.s64", 2, each1(func(a uint64) uint64 { return -a }))
	addForm("not.b64", 2, each1(func(a uint64) uint64 { return ^a }))
	addForm("add.s64 add.u64", 3, addLong)
	addForm("sub.s64 sub.u64", 3, each2(func(a, b uint64) uint64 { return a - b }))
	addForm("mul.lo.s64 mul.lo.u64", 3, each2(func(a, b uint64) uint64 { return a * b }))
	addForm("and.b64", 3, each2(func(a, b uint64) uint64 { return a & b }))
	addForm("or.b64", 3, each2(func(a, b uint64) uint64 { return a | b }))
	addForm("xor.b64", 3, each2(func(a, b uint64) uint64 { return a ^ b }))
	addForm("min.u64", 3, each2(func(a, b uint64) uint64 { return min(a, b) }))
	addForm("max.u64", 3, each2(func(a, b uint64) uint64 { return max(a, b) }))
	addForm("shl.b64", 3, each2(func(a uint64, n uint32) uint64 { return a << n }))
	addForm("shr.u64", 3, each2(func(a uint64, n uint32) uint64 { return a >> n }))
	addForm("shr.s64", 3, each2(func(a uint64, n uint32) uint64 { return uint64(int64(a) >> n) }))

	addForm("cvt.u64.u32", 2, each1(func(a uint32) uint64 { return uint64(a) }))
	addForm("cvt.s64.s32", 2, each1(func(a uint32) uint64 { return uint64(int32(a)) }))
	addForm("mul.wide.u32", 3, each2(func(a, b uint32) uint64 { return uint64(a) * uint64(b) }))
	addForm("mul.wide.s32", 3, each2(func(a, b uint32) uint64 { return uint64(int64(int32(a)) * int64(int32(b))) }))
	addForm("cvt.u32.u64", 2, each1(func(a uint64) uint32 { return uint32(a) }))

	addForm("mov.pred", 2, logic(1, func(a, _ uint32) uint32 { return a }))
	addForm("not.pred", 2, logic(1, func(a, _ uint32) uint32 { return ^a }))
	addForm("and.pred", 3, logic(2, func(a, b uint32) uint32 { return a & b }))
	addForm("or.pred", 3, logic(2, func(a, b uint32) uint32 { return a | b }))
	addForm("xor.pred", 3, logic(2, func(a, b uint32) uint32 { return a ^ b }))
	addForm("selp.b32 selp.u32 selp.s32 selp.f32 selp.b16 selp.u16", 4, choose[uint32])
	addForm("selp.b64 selp.u64 selp.s64", 4, choose[uint64])

	comparisons()
}

func comparisons() {
	addForm("setp.eq.s32 setp.eq.u32 setp.eq.b32", 3, comparison(func(a, b uint32) bool { return a == b }))
	addForm("setp.ne.s32 setp.ne.u32 setp.ne.b32", 3, comparison(func(a, b uint32) bool { return a != b }))
	addForm("setp.lt.u32 setp.lo.u32", 3, comparison(func(a, b uint32) bool { return a < b }))
	addForm("setp.le.u32 setp.ls.u32", 3, comparison(func(a, b uint32) bool { return a <= b }))
	addForm("setp.gt.u32 setp.hi.u32", 3, comparison(func(a, b uint32) bool { return a > b }))
	addForm("setp.ge.u32 setp.hs.u32", 3, comparison(func(a, b uint32) bool { return a >= b }))
	addForm("setp.lt.s32", 3, comparison(func(a, b uint32) bool { return int32(a) < int32(b) }))
	addForm("setp.le.s32", 3, comparison(func(a, b uint32) bool { return int32(a) <= int32(b) }))
	addForm("setp.gt.s32", 3, comparison(func(a, b uint32) bool { return int32(a) > int32(b) }))
	addForm("setp.ge.s32", 3, comparison(func(a, b uint32) bool { return int32(a) >= int32(b) }))
	addForm("setp.eq.s16 setp.eq.u16 setp.eq.b16", 3, comparison(func(a, b uint32) bool { return uint16(a) == uint16(b) }))
	addForm("setp.ne.s16 setp.ne.u16 setp.ne.b16", 3, comparison(func(a, b uint32) bool { return uint16(a) != uint16(b) }))
	addForm("setp.eq.f32", 3, comparison(func(a, b uint32) bool { return f32(a) == f32(b) }))
	addForm("setp.ne.f32", 3, comparison(func(a, b uint32) bool { return f32(a) < f32(b) || f32(a) > f32(b) }))
	addForm("setp.lt.f32", 3, comparison(func(a, b uint32) bool { return f32(a) < f32(b) }))
	addForm("setp.le.f32", 3, comparison(func(a, b uint32) bool { return f32(a) <= f32(b) }))
	addForm("setp.gt.f32", 3, comparison(func(a, b uint32) bool { return f32(a) > f32(b) }))
	addForm("setp.ge.f32", 3, comparison(func(a, b uint32) bool { return f32(a) >= f32(b) }))
	addForm("setp.neu.f32", 3, comparison(func(a, b uint32) bool { return f32(a) != f32(b) }))
	addForm("setp.ltu.f32", 3, comparison(func(a, b uint32) bool { return !(f32(a) >= f32(b)) }))
	addForm("setp.leu.f32", 3, comparison(func(a, b uint32) bool { return !(f32(a) > f32(b)) }))
	addForm("setp.gtu.f32", 3, comparison(func(a, b uint32) bool { return !(f32(a) <= f32(b)) }))
	addForm("setp.geu.f32", 3, comparison(func(a, b uint32) bool { return !(f32(a) < f32(b)) }))
	addForm("setp.eq.s64 setp.eq.u64 setp.eq.b64", 3, comparison(func(a, b uint64) bool { return a == b }))
	addForm("setp.ne.s64 setp.ne.u64 setp.ne.b64", 3, comparison(func(a, b uint64) bool { return a != b }))
	addForm("setp.lt.u64", 3, comparison(func(a, b uint64) bool { return a < b }))
	addForm("setp.le.u64", 3, comparison(func(a, b uint64) bool { return a <= b }))
	addForm("setp.gt.u64", 3, comparison(func(a, b uint64) bool { return a > b }))
	addForm("setp.ge.u64", 3, comparison(func(a, b uint64) bool { return a >= b }))
	addForm("setp.lt.s64", 3, comparison(func(a, b uint64) bool { return int64(a) < int64(b) }))
	addForm("setp.gt.s64", 3, comparison(func(a, b uint64) bool { return int64(a) > int64(b) }))
}

// divide returns all ones for a division by zero, as the hardware does.
func divide(a, b uint32) uint32 {
	if b == 0 {
		return math.MaxUint32
	}
	return a / b
}

// minimum is min.f32: a number wins over a NaN, -0 is below +0.
func minimum(a, b uint32) uint32 {
	x, y := f32(a), f32(b)
	switch {
	case x != x && y != y:
		return 0x7fffffff
	case x != x:
		return b
	case y != y:
		return a
	}
	return u32(min(x, y))
}

// fused is fma.rn.f32, which takes most of the time.
func fused(p *parser, o []operand) func(w *warp, mask uint32) {
	d, a, b, c := 32*p.outputRegister(o[0], word), 32*p.inputRegister(o[1], word), 32*p.inputRegister(o[2], word), 32*p.inputRegister(o[3], word)
	return func(w *warp, mask uint32) {
		D, A, B, C := (*lanes32)(w.r[d:]), (*lanes32)(w.r[a:]), (*lanes32)(w.r[b:]), (*lanes32)(w.r[c:])
		if mask != all {
			for m := mask; m != 0; m &= m - 1 {
				i := bits.TrailingZeros32(m) & 31
				D[i] = u32(canon.FMA(f32(A[i]), f32(B[i]), f32(C[i])))
			}
			return
		}
		for i := range D {
			x, z := float64(f32(A[i]))*float64(f32(B[i])), float64(f32(C[i]))
			s := x + z
			if canon.Awkward(s) {
				s = canon.Round(x, z)
			}
			D[i] = u32(float32(s))
		}
	}
}

// addLong is add.s64: addresses; the most frequent instruction after loads.
func addLong(p *parser, o []operand) func(w *warp, mask uint32) {
	d, a, b := 32*p.outputRegister(o[0], long), 32*p.inputRegister(o[1], long), 32*p.inputRegister(o[2], long)
	return func(w *warp, mask uint32) {
		D, A, B := (*lanes64)(w.l[d:]), (*lanes64)(w.l[a:]), (*lanes64)(w.l[b:])
		for m := mask; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m) & 31
			D[i] = A[i] + B[i]
		}
	}
}

func init() { addForm("shfl.sync.bfly.b32", 5, shuffle) }

// shuffle gives every lane the value of the lane whose number differs in the bits of an
// immediate: of a whole warp, as one group of 32.
func shuffle(p *parser, o []operand) func(w *warp, mask uint32) {
	for i, want := range map[int]uint32{3: 31, 4: all} {
		if o[i].kind != isImmediate || uint32(o[i].value) != want {
			p.fail("shfl of less than a full warp")
		}
	}
	d, a, b := 32*p.outputRegister(o[0], word), 32*p.inputRegister(o[1], word), 32*p.inputRegister(o[2], word)
	return func(w *warp, _ uint32) {
		from := lanes32(w.r[a : a+32])
		for i := range 32 {
			w.r[d+i] = from[(i^int(w.r[b+i]))&31]
		}
	}
}
