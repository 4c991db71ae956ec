package ptx

import (
	"math"
	"math/bits"

	"github.com/eusn-stream/eusn-stream/internal/canon"
)

func f32(u uint32) float32 { return math.Float32frombits(u) }
func u32(f float32) uint32 { return math.Float32bits(f) }

// What each instruction computes, after the PTX ISA manual, chapter 9.
func init() {
	add("mov.b32 mov.u32 mov.s32 mov.f32 mov.b16 mov.u16", 2, each1(func(a uint32) uint32 { return a }))
	add("cvt.u32.u16", 2, each1(func(a uint32) uint32 { return a & 0xffff }))
	add("cvt.u16.u32", 2, each1(func(a uint32) uint32 { return a & 0xffff }))
	add("neg.s32", 2, each1(func(a uint32) uint32 { return -a }))
	add("not.b32", 2, each1(func(a uint32) uint32 { return ^a }))
	add("abs.f32", 2, each1(func(a uint32) uint32 { return a &^ (1 << 31) }))
	add("neg.f32", 2, each1(func(a uint32) uint32 { return a ^ 1<<31 }))
	// Rounding a square root twice is right: 53 bits are at least 2*24+2
	// (Figueroa, "When is double rounding innocuous?", SIGNUM 1995).
	add("sqrt.rn.f32", 2, each1(func(a uint32) uint32 { return u32(float32(math.Sqrt(float64(f32(a))))) }))
	add("cvt.rn.f32.u32", 2, each1(func(a uint32) uint32 { return u32(float32(a)) }))
	add("cvt.rn.f32.s32", 2, each1(func(a uint32) uint32 { return u32(float32(int32(a))) }))

	add("add.s32 add.u32", 3, each2(func(a, b uint32) uint32 { return a + b }))
	add("sub.s32 sub.u32", 3, each2(func(a, b uint32) uint32 { return a - b }))
	add("mul.lo.s32 mul.lo.u32", 3, each2(func(a, b uint32) uint32 { return a * b }))
	add("mul.hi.u32", 3, each2(func(a, b uint32) uint32 { return uint32(uint64(a) * uint64(b) >> 32) }))
	add("div.u32", 3, each2(func(a, b uint32) uint32 { return divide(a, b) }))
	add("rem.u32", 3, each2(func(a, b uint32) uint32 { return a - b*divide(a, b) }))
	add("min.u32", 3, each2(func(a, b uint32) uint32 { return min(a, b) }))
	add("max.u32", 3, each2(func(a, b uint32) uint32 { return max(a, b) }))
	add("min.s32", 3, each2(func(a, b uint32) uint32 { return uint32(min(int32(a), int32(b))) }))
	add("max.s32", 3, each2(func(a, b uint32) uint32 { return uint32(max(int32(a), int32(b))) }))
	add("and.b32 and.b16", 3, each2(func(a, b uint32) uint32 { return a & b }))
	add("or.b32 or.b16", 3, each2(func(a, b uint32) uint32 { return a | b }))
	add("xor.b32 xor.b16", 3, each2(func(a, b uint32) uint32 { return a ^ b }))
	add("shl.b32", 3, each2(func(a, n uint32) uint32 { return a << n })) // Go's shifts clamp as PTX's do
	add("shr.u32", 3, each2(func(a, n uint32) uint32 { return a >> n }))
	add("shr.s32", 3, each2(func(a, n uint32) uint32 { return uint32(int32(a) >> n) }))
	add("add.rn.f32", 3, each2(func(a, b uint32) uint32 { return u32(f32(a) + f32(b)) }))
	add("sub.rn.f32", 3, each2(func(a, b uint32) uint32 { return u32(f32(a) - f32(b)) }))
	add("mul.rn.f32", 3, each2(func(a, b uint32) uint32 { return u32(f32(a) * f32(b)) }))
	add("div.rn.f32", 3, each2(func(a, b uint32) uint32 { return u32(f32(a) / f32(b)) }))
	add("min.f32", 3, each2(func(a, b uint32) uint32 { return minimum(a, b) }))
	add("max.f32", 3, each2(func(a, b uint32) uint32 { return minimum(a^1<<31, b^1<<31) ^ 1<<31 }))

	add("mad.lo.s32 mad.lo.u32", 4, each3(func(a, b, c uint32) uint32 { return a*b + c }))
	add("bfe.u32", 4, each3(func(a, at, n uint32) uint32 { return a >> (at & 255) & (1<<(n&255) - 1) }))
	add("fma.rn.f32", 4, fused)

	add("mov.b64 mov.u64 mov.s64 cvta.to.global.u64 cvta.global.u64 cvta.to.shared.u64", 2, each1(func(a uint64) uint64 { return a }))
	add("neg.s64", 2, each1(func(a uint64) uint64 { return -a }))
	add("not.b64", 2, each1(func(a uint64) uint64 { return ^a }))
	add("add.s64 add.u64", 3, addLong)
	add("sub.s64 sub.u64", 3, each2(func(a, b uint64) uint64 { return a - b }))
	add("mul.lo.s64 mul.lo.u64", 3, each2(func(a, b uint64) uint64 { return a * b }))
	add("and.b64", 3, each2(func(a, b uint64) uint64 { return a & b }))
	add("or.b64", 3, each2(func(a, b uint64) uint64 { return a | b }))
	add("xor.b64", 3, each2(func(a, b uint64) uint64 { return a ^ b }))
	add("min.u64", 3, each2(func(a, b uint64) uint64 { return min(a, b) }))
	add("max.u64", 3, each2(func(a, b uint64) uint64 { return max(a, b) }))
	add("shl.b64", 3, each2(func(a uint64, n uint32) uint64 { return a << n }))
	add("shr.u64", 3, each2(func(a uint64, n uint32) uint64 { return a >> n }))
	add("shr.s64", 3, each2(func(a uint64, n uint32) uint64 { return uint64(int64(a) >> n) }))

	add("cvt.u64.u32", 2, each1(func(a uint32) uint64 { return uint64(a) }))
	add("cvt.s64.s32", 2, each1(func(a uint32) uint64 { return uint64(int32(a)) }))
	add("mul.wide.u32", 3, each2(func(a, b uint32) uint64 { return uint64(a) * uint64(b) }))
	add("mul.wide.s32", 3, each2(func(a, b uint32) uint64 { return uint64(int64(int32(a)) * int64(int32(b))) }))
	add("cvt.u32.u64", 2, each1(func(a uint64) uint32 { return uint32(a) }))

	add("mov.pred", 2, logic(1, func(a, _ uint32) uint32 { return a }))
	add("not.pred", 2, logic(1, func(a, _ uint32) uint32 { return ^a }))
	add("and.pred", 3, logic(2, func(a, b uint32) uint32 { return a & b }))
	add("or.pred", 3, logic(2, func(a, b uint32) uint32 { return a | b }))
	add("xor.pred", 3, logic(2, func(a, b uint32) uint32 { return a ^ b }))
	add("selp.b32 selp.u32 selp.s32 selp.f32 selp.b16 selp.u16", 4, choose[uint32])
	add("selp.b64 selp.u64 selp.s64", 4, choose[uint64])

	comparisons()
}

func comparisons() {
	add("setp.eq.s32 setp.eq.u32 setp.eq.b32", 3, compare(func(a, b uint32) bool { return a == b }))
	add("setp.ne.s32 setp.ne.u32 setp.ne.b32", 3, compare(func(a, b uint32) bool { return a != b }))
	add("setp.lt.u32 setp.lo.u32", 3, compare(func(a, b uint32) bool { return a < b }))
	add("setp.le.u32 setp.ls.u32", 3, compare(func(a, b uint32) bool { return a <= b }))
	add("setp.gt.u32 setp.hi.u32", 3, compare(func(a, b uint32) bool { return a > b }))
	add("setp.ge.u32 setp.hs.u32", 3, compare(func(a, b uint32) bool { return a >= b }))
	add("setp.lt.s32", 3, compare(func(a, b uint32) bool { return int32(a) < int32(b) }))
	add("setp.le.s32", 3, compare(func(a, b uint32) bool { return int32(a) <= int32(b) }))
	add("setp.gt.s32", 3, compare(func(a, b uint32) bool { return int32(a) > int32(b) }))
	add("setp.ge.s32", 3, compare(func(a, b uint32) bool { return int32(a) >= int32(b) }))
	add("setp.eq.s16 setp.eq.u16 setp.eq.b16", 3, compare(func(a, b uint32) bool { return uint16(a) == uint16(b) }))
	add("setp.ne.s16 setp.ne.u16 setp.ne.b16", 3, compare(func(a, b uint32) bool { return uint16(a) != uint16(b) }))
	add("setp.eq.f32", 3, compare(func(a, b uint32) bool { return f32(a) == f32(b) }))
	add("setp.ne.f32", 3, compare(func(a, b uint32) bool { return f32(a) < f32(b) || f32(a) > f32(b) }))
	add("setp.lt.f32", 3, compare(func(a, b uint32) bool { return f32(a) < f32(b) }))
	add("setp.le.f32", 3, compare(func(a, b uint32) bool { return f32(a) <= f32(b) }))
	add("setp.gt.f32", 3, compare(func(a, b uint32) bool { return f32(a) > f32(b) }))
	add("setp.ge.f32", 3, compare(func(a, b uint32) bool { return f32(a) >= f32(b) }))
	add("setp.neu.f32", 3, compare(func(a, b uint32) bool { return f32(a) != f32(b) }))
	add("setp.ltu.f32", 3, compare(func(a, b uint32) bool { return !(f32(a) >= f32(b)) }))
	add("setp.leu.f32", 3, compare(func(a, b uint32) bool { return !(f32(a) > f32(b)) }))
	add("setp.gtu.f32", 3, compare(func(a, b uint32) bool { return !(f32(a) <= f32(b)) }))
	add("setp.geu.f32", 3, compare(func(a, b uint32) bool { return !(f32(a) < f32(b)) }))
	add("setp.eq.s64 setp.eq.u64 setp.eq.b64", 3, compare(func(a, b uint64) bool { return a == b }))
	add("setp.ne.s64 setp.ne.u64 setp.ne.b64", 3, compare(func(a, b uint64) bool { return a != b }))
	add("setp.lt.u64", 3, compare(func(a, b uint64) bool { return a < b }))
	add("setp.le.u64", 3, compare(func(a, b uint64) bool { return a <= b }))
	add("setp.gt.u64", 3, compare(func(a, b uint64) bool { return a > b }))
	add("setp.ge.u64", 3, compare(func(a, b uint64) bool { return a >= b }))
	add("setp.lt.s64", 3, compare(func(a, b uint64) bool { return int64(a) < int64(b) }))
	add("setp.gt.s64", 3, compare(func(a, b uint64) bool { return int64(a) > int64(b) }))
}

// divide gives all ones for a division by zero, as the hardware does.
func divide(a, b uint32) uint32 {
	if b == 0 {
		return math.MaxUint32
	}
	return a / b
}

// minimum is min.f32: a NaN loses against a number, -0 is below +0.
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

// fused is fma.rn.f32: nearly all the work there is.
func fused(p *parser, o []operand) func(w *warp, mask uint32) {
	d, a, b, c := 32*p.out(o[0], word), 32*p.in(o[1], word), 32*p.in(o[2], word), 32*p.in(o[3], word)
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

// addLong is add.s64: addresses, next to loads the most frequent.
func addLong(p *parser, o []operand) func(w *warp, mask uint32) {
	d, a, b := 32*p.out(o[0], long), 32*p.in(o[1], long), 32*p.in(o[2], long)
	return func(w *warp, mask uint32) {
		D, A, B := (*lanes64)(w.l[d:]), (*lanes64)(w.l[a:]), (*lanes64)(w.l[b:])
		for m := mask; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m) & 31
			D[i] = A[i] + B[i]
		}
	}
}
