package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// mixedGather gathers the values of a block's inputs: 8 samples of an input at a
// time by a transposition, the remaining samples one by one.
func (g *isa) mixedGather() {
	g.function("mixedGather", "(values, series *float32, at *int32, inputs, n int)",
		"writes by sample, then input, the vector of 8 members' values; at has each one's first, in bytes from series on.")
	values, series, places, inputs, n := reg.RDI, reg.RSI, reg.R8, reg.RCX, reg.R9
	stride, to, from, left, place := reg.R10, reg.R11, reg.R12, reg.RDX, reg.RAX
	Load(Param("values"), values)
	Load(Param("series"), series)
	Load(Param("at"), places)
	Load(Param("inputs"), inputs)
	Load(Param("n"), n)
	MOVQ(inputs, stride)
	SHLQ(Imm(5), stride)
	Label("input")
	MOVQ(values, to)
	MOVQ(series, from)
	MOVQ(n, left)
	SUBQ(Imm(8), left)
	JLT(LabelRef("few"))
	Label("whole")
	for i := range 8 {
		MOVL(at(places, 4*i), place.As32())
		VMOVUPS(scaled(from, place, 1, 0), g.regs[i])
	}
	for _, v := range transpose8() {
		VMOVUPS(v, at(to, 0))
		ADDQ(stride, to)
	}
	ADDQ(Imm(32), from)
	SUBQ(Imm(8), left)
	JGE(LabelRef("whole"))
	Label("few")
	ADDQ(Imm(8), left)
	JZ(LabelRef("next"))
	Label("one")
	for half := range 2 {
		x := g.regs[half].AsX()
		for i := range 4 {
			MOVL(at(places, 16*half+4*i), place.As32())
			if i == 0 {
				VMOVSS(scaled(from, place, 1, 0), x)
			} else {
				VINSERTPS(Imm(uint64(i<<4)), scaled(from, place, 1, 0), x, x)
			}
		}
	}
	VINSERTF128(Imm(1), g.regs[1].AsX(), g.regs[0], g.regs[0])
	VMOVUPS(g.regs[0], at(to, 0))
	ADDQ(stride, to)
	ADDQ(Imm(4), from)
	DECQ(left)
	JNZ(LabelRef("one"))
	Label("next")
	ADDQ(Imm(32), places)
	ADDQ(Imm(32), values)
	DECQ(inputs)
	JNZ(LabelRef("input"))
	VZEROUPPER()
	RET()
}
