package main

import "fmt"

// features emits the conversion of accumulators to features; see
// Layout.FeaturesOf in package reservoir. Units go by fours, and the last fewer
// units one by one in the first lane.
func (f *file) features() {
	const dst, n, count = "R0", left, vec(8)
	each := func(name, params, doc string, parts []string, body func()) {
		at := 8 * (len(parts) + 2)
		f.function(name, "(dst *float32, "+params+", n int, count float32)", at+4, doc)
		f.op("MOVD", "dst+0(FP), %s", dst)
		from := make([]string, len(parts))
		for i, p := range parts {
			from[i] = row(i)
			f.op("MOVD", "%s+%d(FP), %s", p, 8*(i+1), from[i])
		}
		f.op("MOVD", "n+%d(FP), %s", at-8, n)
		f.op("FMOVS", "count+%d(FP), %s", at, count.f())
		f.op("VDUP", "V%d.S[0], %s", count, count.s())
		units := func(move string, bytes int) func() {
			return func() {
				for i := range from {
					f.op(move, "%d(%s), %s", bytes, from[i], vec(i).f())
				}
				body()
				f.op(move, "%s, %d(%s)", vec(0).f(), bytes, dst)
			}
		}
		f.blocks(4, units("FMOVQ.P", 16), nil, units("FMOVS.P", 4))
		f.op("RET", "")
	}
	each("mean", "high, low *uint32", "writes (high + low) / count for n units.", []string{"high", "low"}, func() {
		f.fadd(0, 0, 1)
		f.fdiv(0, 0, count)
	})
	each("share", "positive *uint32", "writes positive / count for n units.", []string{"positive"}, func() {
		f.ucvtf(0, 0)
		f.fdiv(0, 0, count)
	})
	each("deviation", "high, low, squareHigh, squareLow *uint32",
		"writes sqrt(max(0, fma(-mean, mean, squares / count))) for n units.", []string{"high", "low", "squareHigh", "squareLow"}, func() {
			f.fadd(0, 0, 1)
			f.fdiv(0, 0, count)
			f.fadd(2, 2, 3)
			f.fdiv(2, 2, count)
			f.op("VFMLS", "%s, %s, %s", vec(0).s(), vec(0).s(), vec(2).s())
			f.op("VEOR", "%s, %s, %s", vec(3).b(), vec(3).b(), vec(3).b())
			f.fmax(2, 2, 3)
			f.fsqrt(0, 2)
		})
}

// limited emits the conversion of features for a readout with limits.
func (f *file) limited() {
	f.function("limited", "(dst, features, center, limit *float32, n int)", 40,
		"writes features - center, each limited to [-limit, limit], for n features; dst may be features.")
	const dst, v, c, l, low, zero = "R0", vec(0), vec(1), vec(2), vec(3), vec(4)
	f.op("MOVD", "dst+0(FP), %s", dst)
	f.op("MOVD", "features+8(FP), %s", row(0))
	f.op("MOVD", "center+16(FP), %s", row(1))
	f.op("MOVD", "limit+24(FP), %s", row(2))
	f.op("MOVD", "n+32(FP), %s", left)
	f.op("VEOR", "%s, %s, %s", zero.b(), zero.b(), zero.b())
	values := func(move string, bytes int) func() {
		return func() {
			for i, r := range []vec{v, c, l} {
				f.op(move, "%d(%s), %s", bytes, row(i), r.f())
			}
			f.fsub(v, v, c)
			f.fsub(low, zero, l)
			f.fmin(v, v, l)
			f.fmax(v, v, low)
			f.op(move, "%s, %d(%s)", v.f(), bytes, dst)
		}
	}
	f.blocks(4, values("FMOVQ.P", 16), nil, values("FMOVS.P", 4))
	f.op("RET", "")
}

// scores emits the readout of the given streams: columns in the lanes, one
// chain of fused multiply-adds over the features for each stream.
func (f *file) scores(streams int) {
	f.function(fmt.Sprintf("scores%dx", streams), "(dst, weights, intercept, center, features *float32, stride, n int)", 56,
		fmt.Sprintf("computes a vector of columns for %d streams whose n features are stride bytes apart.", streams))
	const dst, weights, intercept, center, n = "R0", "R1", "R2", "R4", left
	w, c := pairAt(16), vec(18)
	sum := func(s int) pair { return pairAt(vec(2 * s)) }
	f.op("MOVD", "dst+0(FP), %s", dst)
	f.op("MOVD", "weights+8(FP), %s", weights)
	f.op("MOVD", "intercept+16(FP), %s", intercept)
	f.op("MOVD", "center+24(FP), %s", center)
	f.op("MOVD", "features+32(FP), %s", row(0))
	f.op("MOVD", "stride+40(FP), %s", t0)
	f.op("MOVD", "n+48(FP), %s", n)
	for s := range streams {
		f.op("FLDPQ", "(%s), %v", intercept, sum(s))
		if s > 0 {
			f.op("ADD", "%s, %s, %s", t0, row(s-1), row(s))
		}
	}
	f.label("feature")
	f.op("FLDPQ.P", "%d(%s), %v", pairBytes, weights, w)
	f.op("FMOVS.P", "4(%s), %s", center, c.f())
	for s := range streams {
		x := c + 1 + vec(s)
		f.op("FMOVS.P", "4(%s), %s", row(s), x.f())
		f.op("FSUBS", "%s, %s, %s", c.f(), x.f(), x.f())
		for i, a := range sum(s) {
			f.fmla(a, w[i], x, 0)
		}
	}
	f.op("SUBS", "$1, %s", n)
	f.op("BNE", "feature")
	for s := range streams {
		f.op("FSTPQ", "%v, %d(%s)", sum(s), s*pairBytes, dst)
	}
	f.op("RET", "")
}

// within checks input samples.
func (f *file) within() {
	f.function("within", "(v *float32, n int, limit float32) bool", 25, "reports whether n values are numbers of magnitude at most limit.")
	const v, limit, good = vec(0), vec(1), vec(2)
	f.op("MOVD", "v+0(FP), %s", rows)
	f.op("MOVD", "n+8(FP), %s", left)
	f.op("FMOVS", "limit+16(FP), %s", limit.f())
	f.op("VDUP", "V%d.S[0], %s", limit, limit.s())
	f.op("VCMEQ", "%s, %s, %s", v.s(), v.s(), good.s()) // all ones
	values := func(load string, bytes int) func() {
		return func() { // lanes beyond a single value are zero, and good
			f.op(load, "%d(%s), %s", bytes, rows, v.f())
			f.fabs(v, v)
			f.fcmge(v, limit, v) // false for NaN
			f.op("VAND", "%s, %s, %s", v.b(), good.b(), good.b())
		}
	}
	f.blocks(4, values("FMOVQ.P", 16), nil, values("FMOVS.P", 4))
	f.op("VMOV", "V%d.D[0], %s", good, t0)
	f.op("VMOV", "V%d.D[1], %s", good, t1)
	f.op("AND", "%s, %s", t1, t0)
	f.op("CMN", "$1, %s", t0) // all ones?
	f.op("CSET", "EQ, %s", t0)
	f.op("MOVB", "%s, ret+24(FP)", t0)
	f.op("RET", "")
}

// peakChains independent chains of pairs cover the latency of the multiply-add
// units.
const peakChains = 12

// peak does nothing but fused multiply-adds.
func (f *file) peak() {
	f.function("peak", "(n int)", 8, fmt.Sprintf("does %d x n fused multiply-adds of %d lanes.", peakChains, pairLanes))
	const n = left
	f.op("MOVD", "n+0(FP), %s", n)
	for i := range vec(2*peakChains + 2) {
		f.op("VEOR", "%s, %s, %s", i.b(), i.b(), i.b())
	}
	a, b := vec(2*peakChains), vec(2*peakChains+1)
	f.label("loop")
	for i := range vec(2 * peakChains) {
		f.op("VFMLA", "%s, %s, %s", a.s(), b.s(), i.s())
	}
	f.op("SUBS", "$1, %s", n)
	f.op("BNE", "loop")
	f.op("RET", "")
}
