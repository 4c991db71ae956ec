package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Registers of the transpositions.
var (
	tile   = reg.RDI // vector of the tile's first word in hand
	stride = reg.RSI // bytes from a word to the next in the tile
	rows   = reg.R8  // array of row pointers
	place  = reg.R9  // byte offset in the rows
	left   = reg.R10 // words to go
	row    = reg.R11
	step   = reg.R12
	words  = reg.RCX
	tail   = reg.K2
)

// load copies words of scattered rows into a tile, word by word side by side.
func (g *isa) load() { g.transposition("load", true) }

// store is the way back.
func (g *isa) store() { g.transposition("store", false) }

func (g *isa) transposition(name string, in bool) {
	n := g.bytes / 4
	doc := fmt.Sprintf("copies n words of %d rows, from byte offset on, to a tile: word i of row l to lane l of the vector i strides behind dst.", n)
	if !in {
		doc = fmt.Sprintf("copies n words of a tile to %d rows, from byte offset on: lane l of the vector i strides behind src to word i of row l.", n)
	}
	vec := map[bool]string{true: "dst", false: "src"}[in]
	g.function(name, fmt.Sprintf("(%s *float32, stride int, rows **uint32, offset, n int)", vec), doc)
	Load(Param(vec), tile)
	Load(Param("stride"), stride)
	Load(Param("rows"), rows)
	Load(Param("offset"), place)
	Load(Param("n"), left)
	// Whole blocks, then the rest of a block.
	CMPQ(left, Imm(uint64(n)))
	JLT(LabelRef("part"))
	Label("whole")
	if in {
		for i := range n {
			MOVQ(at(rows, 8*i), row)
			VMOVUPS(scaled(row, place, 1, 0), g.regs[i])
		}
		g.eachWord(n, g.transpose(), func(v reg.VecPhysical) { VMOVUPS(v, at(tile, 0)) })
	} else {
		g.eachWord(n, g.regs[:n], func(v reg.VecPhysical) { VMOVUPS(at(tile, 0), v) })
		for i, v := range g.transpose() {
			MOVQ(at(rows, 8*i), row)
			VMOVUPS(v, scaled(row, place, 1, 0))
		}
	}
	ADDQ(Imm(uint64(g.bytes)), place)
	SUBQ(Imm(uint64(n)), left)
	CMPQ(left, Imm(uint64(n)))
	JGE(LabelRef("whole"))
	TESTQ(left, left)
	JZ(LabelRef("end"))
	Label("part")
	g.tailMask(n)
	if in {
		for i := range n {
			MOVQ(at(rows, 8*i), row)
			g.loadMasked(scaled(row, place, 1, 0), g.regs[i])
		}
		g.eachWordLeft(n, g.transpose(), func(v reg.VecPhysical) { VMOVUPS(v, at(tile, 0)) })
	} else {
		g.eachWordLeft(n, g.regs[:n], func(v reg.VecPhysical) { VMOVUPS(at(tile, 0), v) })
		g.storePart(g.transpose(), left, place, func(i int) Mem {
			MOVQ(at(rows, 8*i), row)
			return scaled(row, place, 1, 0)
		})
	}
	Label("end")
	VZEROUPPER()
	RET()
}

// eachWord emits move for the words of a block, whose vectors are v, with tile
// pointing to the place of each word and in the end after the last.
func (g *isa) eachWord(n int, v []reg.VecPhysical, move func(v reg.VecPhysical)) {
	for i := range n {
		move(v[i])
		ADDQ(stride, tile)
	}
}

// eachWordLeft is eachWord for the remaining words, fewer than n.
func (g *isa) eachWordLeft(n int, v []reg.VecPhysical, move func(v reg.VecPhysical)) {
	for i := range n - 1 {
		if i > 0 {
			CMPQ(left, Imm(uint64(i)))
			JLE(LabelRef("short"))
			ADDQ(stride, tile)
		}
		move(v[i])
	}
	Label("short")
}

// tailMask selects the existing words of a block, min(left, n).
func (g *isa) tailMask(n int) {
	MOVQ(U32(n), words)
	CMPQ(left, words)
	CMOVQLT(left, words)
	if g.masks {
		MOVL(I32(-1), step.As32())
		BZHIL(words.As32(), step.As32(), step.As32())
		KMOVW(step.As32(), tail)
		return
	}
	// The mask is read from eight ones followed by eight zeros.
	LEAQ(tailMasks().Offset(g.bytes), step)
	SHLQ(Imm(2), words)
	SUBQ(words, step)
	VMOVUPS(at(step, 0), reg.Y15)
}

func (g *isa) loadMasked(m Mem, v reg.VecPhysical) {
	if g.masks {
		VMOVUPS_Z(m, tail, v)
		return
	}
	VMASKMOVPS(m, reg.Y15, v)
}

// storePart stores the first words of each vector to its place, as many as are
// left or all. Without mask registers a masked store takes as long as ten plain
// stores: the rest of a block goes in halves, for which the vectors are shifted
// and cursor is advanced.
func (g *isa) storePart(v []reg.VecPhysical, left, cursor reg.Register, place func(i int) Mem) {
	if g.masks {
		for i := range v {
			VMOVUPS(v[i], tail, place(i))
		}
		return
	}
	each := func(store func(v reg.VecPhysical, m Mem)) {
		for i := range v {
			store(v[i], place(i))
		}
	}
	CMPQ(left, Imm(8))
	JLT(LabelRef("four"))
	each(func(v reg.VecPhysical, m Mem) { VMOVUPS(v, m) })
	JMP(LabelRef("stored"))
	Label("four")
	TESTQ(U32(4), left)
	JZ(LabelRef("two"))
	each(func(v reg.VecPhysical, m Mem) {
		VMOVUPS(v.AsX(), m)
		VEXTRACTF128(U8(1), v, v.AsX())
	})
	ADDQ(Imm(16), cursor)
	Label("two")
	TESTQ(U32(2), left)
	JZ(LabelRef("one"))
	each(func(v reg.VecPhysical, m Mem) {
		VMOVLPS(v.AsX(), m)
		VPSRLDQ(U8(8), v.AsX(), v.AsX())
	})
	ADDQ(Imm(8), cursor)
	Label("one")
	TESTQ(U32(1), left)
	JZ(LabelRef("stored"))
	each(func(v reg.VecPhysical, m Mem) { VMOVSS(v.AsX(), m) })
	Label("stored")
}

// transpose transposes the n x n words in the first n registers and returns the
// registers of the columns.
func (g *isa) transpose() []reg.VecPhysical {
	n := g.bytes / 4
	a, b := g.regs[:n], g.regs[n:]
	if !g.masks {
		return transpose8()
	}
	for i := 0; i < n; i += 2 { // pairs of rows
		VUNPCKLPS(a[i+1], a[i], b[i])
		VUNPCKHPS(a[i+1], a[i], b[i+1])
	}
	for i := 0; i < n; i += 4 { // a[i+j] holds columns j, 4+j, 8+j, 12+j of rows i..i+3
		VUNPCKLPD(b[i+2], b[i], a[i])
		VUNPCKHPD(b[i+2], b[i], a[i+1])
		VUNPCKLPD(b[i+3], b[i+1], a[i+2])
		VUNPCKHPD(b[i+3], b[i+1], a[i+3])
	}
	const even, odd = 0x88, 0xdd // 128-bit quarters 0 and 2, or 1 and 3, of both
	for j := range 4 {
		VSHUFF32X4(U8(even), a[4+j], a[j], b[j])
		VSHUFF32X4(U8(odd), a[4+j], a[j], b[4+j])
		VSHUFF32X4(U8(even), a[12+j], a[8+j], b[8+j])
		VSHUFF32X4(U8(odd), a[12+j], a[8+j], b[12+j])
	}
	for j := range 4 {
		VSHUFF32X4(U8(even), b[8+j], b[j], a[j])
		VSHUFF32X4(U8(odd), b[8+j], b[j], a[8+j])
		VSHUFF32X4(U8(even), b[12+j], b[4+j], a[4+j])
		VSHUFF32X4(U8(odd), b[12+j], b[4+j], a[12+j])
	}
	return a
}

// transpose8 keeps off register 15, which holds the tail's mask: 8 rows need
// only 4 registers more at a time.
func transpose8() []reg.VecPhysical {
	y := avx2.regs
	out := make([]reg.VecPhysical, 8)
	half := func(r []reg.VecPhysical, t []reg.VecPhysical) { // 4 rows in r, columns j and 4+j into r[j]
		VUNPCKLPS(r[1], r[0], t[0])
		VUNPCKHPS(r[1], r[0], t[1])
		VUNPCKLPS(r[3], r[2], t[2])
		VUNPCKHPS(r[3], r[2], t[3])
		VUNPCKLPD(t[2], t[0], r[0])
		VUNPCKHPD(t[2], t[0], r[1])
		VUNPCKLPD(t[3], t[1], r[2])
		VUNPCKHPD(t[3], t[1], r[3])
	}
	half(y[0:4], y[8:12])
	half(y[4:8], y[8:12])
	for j := range 4 {
		VPERM2F128(U8(0x31), y[4+j], y[j], y[8+j])
		VPERM2F128(U8(0x20), y[4+j], y[j], y[j])
		out[j], out[4+j] = y[j], y[8+j]
	}
	return out
}

// tailMasks is eight ones, then eight zeros, defined at its first use.
func tailMasks() Mem {
	if masks.Base == nil {
		masks = GLOBL("tailMasks", RODATA|NOPTR)
		for i := range 8 {
			DATA(4*i, U32(1<<32-1))
		}
		for i := range 8 {
			DATA(32+4*i, U32(0))
		}
	}
	return masks
}

var masks Mem
