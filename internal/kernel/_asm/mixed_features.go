package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// mixedFeatures emits the features of a block of 8 members: by kind a vector for each of 8
// units, then transposed, since a member's features lie together.
//
// Divisions take most of the time. The place of a deviation holds its mean until then. And a
// share k/n, of counts below 2^16, is fma(k, high, k * low), where high + low is 1/n to
// 2^-47: the unrounded value is within 2^-46 of k/n, in relation to k/n, and no k/n is as
// near to a rounding boundary, a number M of 25 bits, odd, times a power of two. Their
// distance is |k - M n 2^e| / n; it is not 0, since M is larger than k's odd part, so it is
// at least 1/(n M) of k/n, more than 2^-41.
func (g *isa) mixedFeatures() {
	g.function("mixedFeatures", "(features *float32, state *uint32, consts *float32, count, high, low float32)",
		"writes the features of a block of 8 members, one member's after another; high + low is 1/count.")
	const kinds, memberBytes = 8, 8 * mixedUnits * 4
	to, state, consts, half := reg.RDI, reg.RSI, reg.R8, reg.RCX
	totals := reg.R9 // the state, as the counts of a unit are half as large
	low, mean, a, high := g.regs[15], g.regs[14], g.regs[13], g.regs[12]
	Load(Param("features"), to)
	Load(Param("state"), state)
	Load(Param("consts"), consts)
	VBROADCASTSS(NewParamAddr("high", 28), high)
	VBROADCASTSS(NewParamAddr("low", 32), low)
	MOVQ(state, totals)
	MOVQ(U32(2), half)
	share := func(place int) func(i int, v reg.VecPhysical) {
		return func(i int, v reg.VecPhysical) {
			VPMOVZXWD(at(totals, place+16*i), a)
			VCVTDQ2PS(a, a)
			VMULPS(low, a, v)
			VFMADD231PS(high, a, v)
		}
	}
	count := func(i int, v reg.VecPhysical) {
		if i == 0 {
			VBROADCASTSS(NewParamAddr("count", 24), v)
		}
	}
	// Until then, the places of a unit's deviations hold its means.
	kept := func(i int) Mem { return at(to, memberBytes*i+4*mixedUnits*4) }
	Label("half")
	for k, feature := range [kinds]func(i int, v reg.VecPhysical){
		func(i int, v reg.VecPhysical) { VMOVUPS(at(state, mixedH+32*i), v) },
		func(i int, v reg.VecPhysical) {
			count(i, a)
			VMOVUPS(at(state, mixedSum+32*i), v)
			VDIVPS(a, v, v)
			VMOVUPS(v, kept(i))
		},
		share(mixedPpv),
		func(i int, v reg.VecPhysical) { // the cubic; of the clip the factor is 0
			c, b := mean, a
			VMOVUPS(at(state, mixedMax+32*i), c)
			VMAXPS(at(consts, mixedLow), c, c)
			VMINPS(at(consts, mixedHigh), c, c)
			VXORPS(v, v, v)
			VADDPS(v, c, v)
			VMULPS(c, c, b)
			VMULPS(at(consts, mixedFactor), c, c)
			VFMADD231PS(c, b, v)
		},
		func(i int, v reg.VecPhysical) {
			count(i, a)
			VMOVUPS(kept(i), mean)
			VMOVUPS(at(state, mixedSquare+32*i), v)
			VDIVPS(a, v, v)
			VFNMADD231PS(mean, mean, v)
			VXORPS(mean, mean, mean)
			VMAXPS(mean, v, v) // 0 unless positive
			VSQRTPS(v, v)
		},
		share(mixedSc), share(mixedWin), share(mixedLose),
	} {
		for i := range 8 {
			feature(i, g.regs[i])
		}
		for member, v := range transpose8() {
			VMOVUPS(v, at(to, memberBytes*member+4*mixedUnits*k))
		}
	}
	ADDQ(U32(8*32), state)
	ADDQ(U32(8*16), totals)
	ADDQ(U32(32), to)
	DECQ(half)
	JNZ(LabelRef("half"))
	VZEROUPPER()
	RET()
}
