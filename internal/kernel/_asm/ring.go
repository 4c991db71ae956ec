package main

import (
	"fmt"
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// ring advances a tile of streams by Count samples if each unit sees only the
// previous unit. Weights are, per unit, the bias, the inputs' weights and the
// recurrent weight. States stay in place: a register keeps each unit's old
// state for the next unit.
func (s shape) ring() {
	s.function("ring"+s.name, "(a *byte)", fmt.Sprintf("advances %d streams of a ring by a.Count samples.", s.lanes()))
	Load(Param("a"), args)
	MOVQ(field("Consts"), consts)
	MOVQ(field("Sums"), sums)
	Label("step")
	s.copyInputs()
	MOVQ(field("Weights"), weights)
	MOVQ(field("CurState"), oldState)
	MOVQ(oldState, newState)
	last := reg.R13
	MOVQ(field("Units"), entry)
	MOVQ(entry, last)
	SHLQ(Imm(uint64(bits.TrailingZeros(uint(s.rowBytes())))), last)
	XORQ(offset, offset)
	const base = 8 // finish uses registers below
	previous, old, z := s.regs[base:base+s.vectors], s.regs[base+2:base+2+s.vectors], s.regs[base+4:base+4+s.vectors]
	w := s.regs[base+6]
	for v := range s.vectors {
		VMOVUPS(scaled(oldState, last, 1, v*s.bytes-s.rowBytes()), previous[v])
	}
	Label("unit")
	for v := range s.vectors {
		VBROADCASTSS(at(weights, 0), z[v])
		VMOVUPS(scaled(oldState, offset, 1, v*s.bytes), old[v])
	}
	ADDQ(Imm(4), weights)
	MOVQ(field("Cur"), values)
	MOVQ(field("Selected"), count)
	Label("product")
	VBROADCASTSS(at(weights, 0), w)
	for v := range s.vectors {
		VFMADD231PS(at(values, v*s.bytes), w, z[v])
	}
	ADDQ(Imm(4), weights)
	ADDQ(Imm(uint64(s.rowBytes())), values)
	DECQ(count)
	JNZ(LabelRef("product"))
	VBROADCASTSS(at(weights, 0), w)
	ADDQ(Imm(4), weights)
	for v := range s.vectors {
		VFMADD231PS(previous[v], w, z[v])
		VMOVAPS(old[v], previous[v])
	}
	r := s.isa.temps(0)
	for v := range s.vectors {
		r.x = z[v]
		s.finish(r, fmt.Sprintf("_%d", v))
		ADDQ(Imm(uint64(s.bytes)), offset)
	}
	DECQ(entry)
	JNZ(LabelRef("unit"))
	DECQ(field("Count"))
	JNZ(LabelRef("step"))
	VZEROUPPER()
	RET()
}

// ringSingle advances one stream of a ring, its units in the lanes. Weights
// are, per vector of units, the bias, each input's weights and the recurrent
// weights. A vector of predecessors is read one word before its units; the last
// unit is copied to the place before the first.
func (s shape) ringSingle() {
	s.function("ringSingle", "(a *byte)", "advances one stream of a ring by a.Count samples.")
	Load(Param("a"), args)
	MOVQ(field("Consts"), consts)
	MOVQ(field("Sums"), sums)
	Label("step")
	MOVQ(field("Weights"), weights)
	MOVQ(field("CurState"), oldState)
	MOVQ(field("NextState"), newState)
	MOVQ(field("Units"), entry)
	MOVL(scaled(oldState, entry, 4, -4), count.As32())
	MOVL(count.As32(), at(oldState, -4))
	lanes := s.bytes / 4
	ADDQ(Imm(uint64(lanes-1)), entry)
	SHRQ(Imm(uint64(bits.TrailingZeros(uint(lanes)))), entry)
	XORQ(offset, offset)
	z, x := s.regs[8], s.regs[9] // finish uses registers below
	Label("vector")
	VMOVUPS(at(weights, 0), z)
	ADDQ(Imm(uint64(s.bytes)), weights)
	MOVQ(field("Inputs"), values)
	MOVQ(field("Select"), pending)
	MOVQ(field("Selected"), count)
	Label("product")
	MOVQ(at(pending, 0), waiting)
	VBROADCASTSS(scaled(values, waiting, 1, 0), x)
	VFMADD231PS(at(weights, 0), x, z)
	ADDQ(Imm(uint64(s.bytes)), weights)
	ADDQ(Imm(8), pending)
	DECQ(count)
	JNZ(LabelRef("product"))
	VMOVUPS(scaled(oldState, offset, 1, -4), x)
	VFMADD231PS(at(weights, 0), x, z)
	ADDQ(Imm(uint64(s.bytes)), weights)
	r := s.isa.temps(0)
	r.x = z
	s.finish(r, "_vector")
	ADDQ(Imm(uint64(s.bytes)), offset)
	DECQ(entry)
	JNZ(LabelRef("vector"))
	MOVQ(field("InputStep"), values)
	ADDQ(values, field("Inputs"))
	swap("CurState", "NextState")
	DECQ(field("Count"))
	JNZ(LabelRef("step"))
	VZEROUPPER()
	RET()
}
