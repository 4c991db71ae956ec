package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// within checks input samples faster than memory delivers them.
func (g *isa) within() {
	g.function("within", "(v *float32, n int, limit float32) bool", "reports whether n values are numbers of magnitude at most limit.")
	const notLessOrEqual = 0x16 // true for NaN
	Load(Param("v"), row)
	Load(Param("n"), left)
	v, limit, abs, bad := g.regs[0], g.regs[1], g.regs[2], g.regs[3]
	VBROADCASTSS(NewParamAddr("limit", 16), limit)
	MOVL(U32(1<<31-1), step.As32())
	VMOVD(step.As32(), abs.AsX())
	VBROADCASTSS(abs.AsX(), abs)
	if g.masks {
		KXORW(reg.K1, reg.K1, reg.K1)
	} else {
		VXORPS(bad, bad, bad)
	}
	g.withinQuick(bad, limit, abs)
	Label("block")
	g.tailMask(g.bytes / 4)
	g.loadMasked(at(row, 0), v)
	VANDPS(abs, v, v)
	if g.masks {
		VCMPPS(U8(notLessOrEqual), limit, v, reg.K3)
		KORW(reg.K3, reg.K1, reg.K1)
	} else {
		VCMPPS(U8(notLessOrEqual), limit, v, v)
		VORPS(v, bad, bad)
	}
	ADDQ(U32(g.bytes), row)
	SUBQ(U32(g.bytes/4), left)
	JG(LabelRef("block"))
	Label("checked")
	if g.masks {
		KMOVW(reg.K1, step.As32())
	} else {
		VMOVMSKPS(bad, step.As32())
	}
	VZEROUPPER()
	TESTL(step.As32(), step.As32())
	SETEQ(reg.AL)
	Store(reg.AL, ReturnIndex(0))
	RET()
}

// withinQuick takes four vectors at a time. The bits of numbers without their
// sign are in order as integers, with infinities and NaN above all numbers.
func (g *isa) withinQuick(bad, limit, abs reg.VecPhysical) {
	v, largest := g.regs[4:8], g.regs[8:12]
	for i := range largest {
		VXORPS(largest[i], largest[i], largest[i])
	}
	Label("quick")
	SUBQ(U32(g.bytes), left) // numbers in four vectors
	JL(LabelRef("over"))
	for i := range v {
		if g.masks {
			VPANDD(at(row, i*g.bytes), abs, v[i])
		} else {
			VPAND(at(row, i*g.bytes), abs, v[i])
		}
		VPMAXSD(v[i], largest[i], largest[i])
	}
	ADDQ(U32(4*g.bytes), row)
	JMP(LabelRef("quick"))
	Label("over")
	for i := range largest {
		if g.masks {
			VPCMPGTD(limit, largest[i], reg.K3)
			KORW(reg.K3, reg.K1, reg.K1)
		} else {
			VPCMPGTD(limit, largest[i], largest[i])
			VORPS(largest[i], bad, bad)
		}
	}
	ADDQ(U32(g.bytes), left)
	JZ(LabelRef("checked"))
}
