package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// spread copies words of one row to vectors some stride apart, collect is the
// way back: how a single stream's units get into lanes.
func (g *isa) spread() {
	g.function("spread", "(dst *float32, stride int, src *uint32, n int)",
		"copies n words to vectors stride bytes apart, the last one filled up with zeros.")
	v := g.regs[0]
	g.eachVector("dst", "src", func() {
		VMOVUPS(at(row, 0), v)
		VMOVUPS(v, at(tile, 0))
	}, func() {
		g.tailMask(g.bytes / 4)
		g.loadMasked(at(row, 0), v)
		VMOVUPS(v, at(tile, 0))
	})
}

func (g *isa) collect() {
	g.function("collect", "(src *float32, stride int, dst *uint32, n int)",
		"copies n words from vectors stride bytes apart.")
	v := g.regs[0]
	g.eachVector("src", "dst", func() {
		VMOVUPS(at(tile, 0), v)
		VMOVUPS(v, at(row, 0))
	}, func() {
		if g.masks {
			g.tailMask(g.bytes / 4)
		}
		VMOVUPS(at(tile, 0), v)
		g.storePart([]reg.VecPhysical{v}, left, row, func(int) Mem { return at(row, 0) })
	})
}

// eachVector emits a loop over the whole vectors at tile and their words at
// row, and the code for the words of a partial last vector.
func (g *isa) eachVector(vectors, words string, whole, part func()) {
	n := uint64(g.bytes / 4)
	Load(Param(vectors), tile)
	Load(Param("stride"), stride)
	Load(Param(words), row)
	Load(Param("n"), left)
	SUBQ(Imm(n), left)
	JLT(LabelRef("last"))
	Label("whole")
	whole()
	ADDQ(stride, tile)
	ADDQ(Imm(uint64(g.bytes)), row)
	SUBQ(Imm(n), left)
	JGE(LabelRef("whole"))
	Label("last")
	ADDQ(Imm(n), left)
	JZ(LabelRef("end"))
	part()
	Label("end")
	VZEROUPPER()
	RET()
}
