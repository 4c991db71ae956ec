package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// peakChains independent chains cover the latency of the FMA units of every
// core known (8 to 10 in flight).
const peakChains = 12

// peak does nothing but fused multiply-adds.
func (g *isa) peak() {
	g.function("peak", "(n int)", fmt.Sprintf("does %d x n fused multiply-adds of %d lanes.", peakChains, g.bytes/4))
	n := Load(Param("n"), reg.RCX)
	for i := range g.regs[:peakChains+2] {
		VXORPS(g.regs[i], g.regs[i], g.regs[i])
	}
	a, b := g.regs[peakChains], g.regs[peakChains+1]
	Label("loop")
	for i := range peakChains {
		VFMADD231PS(a, b, g.regs[i])
	}
	DECQ(n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
