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
	g.eachVector("dst", "src", func(v reg.VecPhysical) {
		g.loadMasked(at(row, 0), v)
		VMOVUPS(v, at(tile, 0))
	})
}

func (g *isa) collect() {
	g.function("collect", "(src *float32, stride int, dst *uint32, n int)",
		"copies n words from vectors stride bytes apart.")
	g.eachVector("src", "dst", func(v reg.VecPhysical) {
		VMOVUPS(at(tile, 0), v)
		g.storePart([]reg.VecPhysical{v}, left, row, func(int) Mem { return at(row, 0) })
	})
}

// eachVector emits a loop over the vectors at tile and their words at row.
func (g *isa) eachVector(vectors, words string, move func(v reg.VecPhysical)) {
	n := g.bytes / 4
	Load(Param(vectors), tile)
	Load(Param("stride"), stride)
	Load(Param(words), row)
	Load(Param("n"), left)
	Label("block")
	g.tailMask(n)
	move(g.regs[0])
	ADDQ(stride, tile)
	ADDQ(Imm(uint64(g.bytes)), row)
	SUBQ(Imm(uint64(n)), left)
	JG(LabelRef("block"))
	VZEROUPPER()
	RET()
}
