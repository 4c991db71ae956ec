package main

import "fmt"

// featureRows loads features and stride into the rows of the given streams.
func (f *file) featureRows(streams, features, stride int) {
	f.op("MOVD", "features+%d(FP), %s", features, row(0))
	if streams > 1 {
		f.op("MOVD", "stride+%d(FP), %s", stride, t0)
	}
	for s := range streams - 1 {
		f.op("ADD", "%s, %s, %s", t0, row(s), row(s+1))
	}
}

// scale emits how a detector centers and scales features, with the sums of the squares:
// four chains of float64 for each stream. A square of a float32 is exact in float64, so
// that a fused multiply-add rounds as an addition does.
func (f *file) scale(streams int) {
	f.function(fmt.Sprintf("scale%dx", streams), "(sums *float64, features, center, scale *float32, stride, n int)", 48,
		fmt.Sprintf("puts (f - center) * scale in the place of n features f of %d streams, and adds the square of feature j to sum j mod 4 of the stream's four.", streams))
	const sums, center, scale = "R0", "R1", "R2"
	sum := func(s int) pair { return pairAt(vec(2 * s)) }
	const c, m, v, wide = vec(16), vec(17), vec(18), vec(19)
	f.op("MOVD", "sums+0(FP), %s", sums)
	f.featureRows(streams, 8, 32)
	f.op("MOVD", "center+16(FP), %s", center)
	f.op("MOVD", "scale+24(FP), %s", scale)
	f.op("MOVD", "n+40(FP), %s", left)
	for s := range streams {
		f.op("FLDPQ", "%d(%s), %v", s*pairBytes, sums, sum(s))
	}
	f.label("block")
	f.op("FMOVQ.P", "16(%s), %s", center, c.f())
	f.op("FMOVQ.P", "16(%s), %s", scale, m.f())
	for s := range streams {
		f.op("FMOVQ", "(%s), %s", row(s), v.f())
		f.fsub(v, v, c)
		f.fmulAll(v, v, m)
		f.op("FMOVQ.P", "%s, 16(%s)", v.f(), row(s))
		for half, a := range sum(s) {
			f.fcvtl(wide+vec(half), v, half)
			f.op("VFMLA", "%s, %s, %s", (wide + vec(half)).d(), (wide + vec(half)).d(), a.d())
		}
	}
	f.op("SUBS", "$4, %s", left)
	f.op("BGT", "block")
	for s := range streams {
		f.op("FSTPQ", "%v, %d(%s)", sum(s), s*pairBytes, sums)
	}
	f.op("RET", "")
}

// project emits the products of features with directions: directions in the lanes, a
// chain of fused multiply-adds over the features for each stream.
func (f *file) project(streams int) {
	f.function(fmt.Sprintf("project%dx", streams), "(dst, axes, features *float32, stride, n int)", 40,
		fmt.Sprintf("adds the products with %d directions for %d streams whose n features are stride bytes apart.", pairLanes, streams))
	const dst, axes = "R0", "R1"
	w, x := pairAt(16), vec(18)
	sum := func(s int) pair { return pairAt(vec(2 * s)) }
	f.op("MOVD", "dst+0(FP), %s", dst)
	f.op("MOVD", "axes+8(FP), %s", axes)
	f.featureRows(streams, 16, 24)
	f.op("MOVD", "n+32(FP), %s", left)
	for s := range streams {
		f.op("FLDPQ", "%d(%s), %v", s*pairBytes, dst, sum(s))
	}
	f.label("feature")
	f.op("FLDPQ.P", "%d(%s), %v", pairBytes, axes, w)
	for s := range streams {
		f.op("FMOVS.P", "4(%s), %s", row(s), (x + vec(s)).f())
		for i, a := range sum(s) {
			f.fmla(a, w[i], x+vec(s), 0)
		}
	}
	f.op("SUBS", "$1, %s", left)
	f.op("BNE", "feature")
	for s := range streams {
		f.op("FSTPQ", "%v, %d(%s)", sum(s), s*pairBytes, dst)
	}
	f.op("RET", "")
}
