package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// mixedFeatures emits the features of a block of 8 members: by kind a vector for
// each of 8 units, which are turned, since a member's features lie together.
func (g *isa) mixedFeatures() {
	g.function("mixedFeatures", "(features *float32, state *uint32, consts *float32, count float32)",
		"writes the features of a block of 8 members, one member's after another.")
	const kinds, memberBytes = 8, 8 * mixedUnits * 4
	to, state, consts, half := reg.RDI, reg.RSI, reg.R8, reg.RCX
	totals := reg.R9 // the state, as the counts of a unit are half as large
	count, mean, a := g.regs[15], g.regs[14], g.regs[13]
	Load(Param("features"), to)
	Load(Param("state"), state)
	Load(Param("consts"), consts)
	VBROADCASTSS(NewParamAddr("count", 24), count)
	MOVQ(state, totals)
	MOVQ(U32(2), half)
	share := func(place int) func(i int, v reg.VecPhysical) {
		return func(i int, v reg.VecPhysical) {
			VPMOVZXWD(at(totals, place+16*i), v)
			VCVTDQ2PS(v, v)
			VDIVPS(count, v, v)
		}
	}
	Label("half")
	for k, feature := range [kinds]func(i int, v reg.VecPhysical){
		func(i int, v reg.VecPhysical) { VMOVUPS(at(state, mixedH+32*i), v) },
		func(i int, v reg.VecPhysical) {
			VMOVUPS(at(state, mixedSum+32*i), v)
			VDIVPS(count, v, v)
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
			VMOVUPS(at(state, mixedSum+32*i), mean)
			VDIVPS(count, mean, mean)
			VMOVUPS(at(state, mixedSquare+32*i), v)
			VDIVPS(count, v, v)
			VFNMADD231PS(mean, mean, v)
			VXORPS(a, a, a)
			VMAXPS(a, v, v) // 0 where it is not positive
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
