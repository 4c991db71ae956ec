package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// features emits the accumulators' way to features, vectors of units at a
// time; see Layout.FeaturesOf in package reservoir. AVX2 converts counts as
// signed numbers.
func (g *isa) features() {
	n, dst := reg.R10, reg.RDI
	from := []reg.GPPhysical{reg.R8, reg.R9, reg.RSI, reg.RDX}
	count, r := g.regs[8], g.regs
	each := func(name, params, doc string, parts []string, body func()) {
		g.function(name, "(dst *float32, "+params+", n int, count float32)", doc)
		Load(Param("dst"), dst)
		for i, p := range parts {
			Load(Param(p), from[i])
		}
		Load(Param("n"), n)
		VBROADCASTSS(NewParamAddr("count", 16+8*len(parts)), count)
		Label("block")
		g.tailMask(g.bytes / 4)
		for i := range parts {
			g.loadMasked(at(from[i], 0), r[i])
			ADDQ(U32(g.bytes), from[i])
		}
		body()
		g.storePart(r[:1], n, dst, func(int) Mem { return at(dst, 0) })
		ADDQ(U32(g.bytes), dst)
		SUBQ(U32(g.bytes/4), n)
		JG(LabelRef("block"))
		VZEROUPPER()
		RET()
	}
	each("mean", "high, low *uint32", "writes (high + low) / count for n units.", []string{"high", "low"}, func() {
		VADDPS(r[1], r[0], r[0])
		VDIVPS(count, r[0], r[0])
	})
	each("share", "positive *uint32", "writes positive / count for n units.", []string{"positive"}, func() {
		if g.masks {
			VCVTUDQ2PS(r[0], r[0])
		} else {
			VCVTDQ2PS(r[0], r[0])
		}
		VDIVPS(count, r[0], r[0])
	})
	each("deviation", "high, low, squareHigh, squareLow *uint32",
		"writes sqrt(max(0, fma(-mean, mean, squares / count))) for n units.", []string{"high", "low", "squareHigh", "squareLow"}, func() {
			VADDPS(r[1], r[0], r[0])
			VDIVPS(count, r[0], r[0])
			VADDPS(r[3], r[2], r[2])
			VDIVPS(count, r[2], r[2])
			VFNMADD231PS(r[0], r[0], r[2])
			VXORPS(r[3], r[3], r[3])
			VMAXPS(r[3], r[2], r[2])
			VSQRTPS(r[2], r[0])
		})
}

// limited emits the conversion of features for a readout with limits. A
// difference equal to a limit, or not a number, stays unchanged.
func (g *isa) limited() {
	g.function("limited", "(dst, features, center, limit *float32, n int)",
		"writes features - center, each limited to [-limit, limit], for n features; dst may be features.")
	dst, features, center, limit, n := reg.RDI, reg.RSI, reg.R8, reg.R9, reg.R10
	Load(Param("dst"), dst)
	Load(Param("features"), features)
	Load(Param("center"), center)
	Load(Param("limit"), limit)
	Load(Param("n"), n)
	v, c, l, low, zero := g.regs[0], g.regs[1], g.regs[2], g.regs[3], g.regs[4]
	VXORPS(zero.AsX(), zero.AsX(), zero.AsX())
	Label("block")
	g.tailMask(g.bytes / 4)
	g.loadMasked(at(features, 0), v)
	g.loadMasked(at(center, 0), c)
	g.loadMasked(at(limit, 0), l)
	VSUBPS(c, v, v)
	VSUBPS(l, zero, low)
	VMINPS(v, l, v)
	VMAXPS(v, low, v)
	g.storePart([]reg.VecPhysical{v}, n, dst, func(int) Mem { return at(dst, 0) })
	for _, r := range []reg.Register{features, center, limit, dst} {
		ADDQ(U32(g.bytes), r)
	}
	SUBQ(U32(g.bytes/4), n)
	JG(LabelRef("block"))
	VZEROUPPER()
	RET()
}

// scores emits the readout of the given streams: columns in the lanes, one
// chain of fused multiply-adds over the features for each stream.
func (g *isa) scores(streams int) {
	g.function(fmt.Sprintf("scores%dx", streams), "(dst, weights, intercept, center, features *float32, stride, n int)",
		fmt.Sprintf("computes a vector of columns for %d streams whose n features are stride bytes apart.", streams))
	w, center, f, f4, third := reg.RSI, reg.R8, reg.R9, reg.R11, reg.R12
	stride, n, dst := reg.R10, reg.RCX, reg.RDI
	Load(Param("dst"), dst)
	Load(Param("weights"), w)
	Load(Param("intercept"), reg.RAX)
	Load(Param("center"), center)
	Load(Param("features"), f)
	Load(Param("stride"), stride)
	Load(Param("n"), n)
	LEAQ(scaled(stride, stride, 2, 0), third)
	LEAQ(scaled(f, stride, 4, 0), f4)
	acc, wv, cv, x := g.regs[:streams], g.regs[streams], g.regs[streams+1], g.regs[streams+2:streams+5]
	for i := range acc {
		VMOVUPS(at(reg.RAX, 0), acc[i])
	}
	Label("feature")
	VMOVUPS(at(w, 0), wv)
	PREFETCHT0(at(w, axesAhead))
	VBROADCASTSS(at(center, 0), cv)
	for i := range acc {
		base := []reg.Register{f, f4}[i/4]
		place := []Mem{at(base, 0), scaled(base, stride, 1, 0), scaled(base, stride, 2, 0), scaled(base, third, 1, 0)}[i%4]
		v := x[i%len(x)]
		VBROADCASTSS(place, v)
		VSUBPS(cv, v, v)
		VFMADD231PS(wv, v, acc[i])
	}
	ADDQ(U32(g.bytes), w)
	ADDQ(U32(4), center)
	ADDQ(U32(4), f)
	ADDQ(U32(4), f4)
	DECQ(n)
	JNZ(LabelRef("feature"))
	for i := range acc {
		VMOVUPS(acc[i], at(dst, i*g.bytes))
	}
	VZEROUPPER()
	RET()
}

// apart emits the columns of several readouts, for the given streams: in each lane its
// readout's own center and, with limits, its limit, which is infinite without a limit.
// For each feature there are vectors of weights, centers and limits.
func (g *isa) apart(streams int, limits bool) {
	name, vectors := fmt.Sprintf("apart%dx", streams), 2
	if limits {
		name, vectors = fmt.Sprintf("limitedApart%dx", streams), 3
	}
	g.function(name, "(dst, columns, intercept, features *float32, stride, n int)",
		fmt.Sprintf("computes a vector of columns, each with its own center, for %d streams whose n features are stride bytes apart.", streams))
	dst, columns, n, rows := reg.RDI, reg.RSI, reg.RCX, featureRows(streams)
	Load(Param("dst"), dst)
	Load(Param("columns"), columns)
	Load(Param("intercept"), reg.RAX)
	rows.begin()
	Load(Param("n"), n)
	acc, free := g.regs[:streams], g.regs[streams:]
	w, c, high, low, zero, x := free[0], free[1], free[2], free[3], free[4], free[5:8]
	for i := range acc {
		VMOVUPS(at(reg.RAX, 0), acc[i])
	}
	if limits {
		VXORPS(zero.AsX(), zero.AsX(), zero.AsX())
	}
	Label("feature")
	VMOVUPS(at(columns, 0), w)
	VMOVUPS(at(columns, g.bytes), c)
	if limits {
		VMOVUPS(at(columns, 2*g.bytes), high)
		VSUBPS(high, zero, low)
	}
	for k := 0; k < vectors*g.bytes; k += 64 {
		PREFETCHT0(at(columns, axesAhead+k))
	}
	for i := range acc {
		v := x[i%len(x)]
		VBROADCASTSS(rows.of(i), v)
		VSUBPS(c, v, v)
		if limits {
			VMINPS(v, high, v)
			VMAXPS(v, low, v)
		}
		VFMADD231PS(w, v, acc[i])
	}
	ADDQ(U32(vectors*g.bytes), columns)
	rows.next(4)
	DECQ(n)
	JNZ(LabelRef("feature"))
	for i := range acc {
		VMOVUPS(acc[i], at(dst, i*g.bytes))
	}
	VZEROUPPER()
	RET()
}
