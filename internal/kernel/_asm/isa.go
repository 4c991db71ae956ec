package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is an instruction set: how wide a vector is, and the few operations that
// are spelled differently.
type isa struct {
	name   string
	bytes  int // of a vector
	regs   []reg.VecPhysical
	masks  bool // has mask registers, embedded broadcasts and one-register table look-up
	shapes []shape
}

// shape is a tile of streams: vectors side by side, and how many rows (units)
// of accumulators the registers hold.
type shape struct {
	*isa
	name      string
	vectors   int
	rows      int
	pipelined bool // the tanh of a row tile runs inside the next one's products
	// woven: instruction by instruction, a unit's two vectors at once; see weave.
	woven bool
	// single: one stream, its units in the lanes; rows counts vectors of units,
	// a value row is one number.
	single bool
}

var avx512 = isa{
	name: "AVX512", bytes: 64, masks: true,
	regs: []reg.VecPhysical{
		reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
		reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23, reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31,
	},
	shapes: []shape{
		{name: "Wide", vectors: 2, rows: 10, pipelined: true, woven: true},
		{name: "Narrow", vectors: 1, rows: 10, pipelined: true},
		{name: "Single", vectors: 1, rows: 14, single: true},
	},
}

var avx2 = isa{
	name: "AVX2", bytes: 32,
	regs: []reg.VecPhysical{
		reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7, reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15,
	},
	shapes: []shape{
		{name: "Wide", vectors: 2, rows: 5, pipelined: true},
		{name: "Narrow", vectors: 1, rows: 5, pipelined: true},
		{name: "Single", vectors: 1, rows: 12, single: true},
	},
}

// lanes is how many streams a tile holds.
func (s shape) lanes() int {
	if s.single {
		return 1
	}
	return s.vectors * s.bytes / 4
}

// rowBytes is the size of a value row, weightBytes of a unit's, or a vector of
// units', weight of one value row.
func (s shape) rowBytes() int { return 4 * s.lanes() }

func (s shape) weightBytes() int {
	if s.single {
		return s.bytes
	}
	return 4
}

// acc is the accumulator of row r, vector v.
func (s shape) acc(r, v int) reg.VecPhysical { return s.regs[r*s.vectors+v] }

// function begins an assembly function of package kernel.
func (g *isa) function(name, signature, doc string) {
	TEXT(name+g.name, NOSPLIT, "func"+signature)
	Pragma("noescape")
	Doc(name + g.name + " " + doc)
}

func at(base reg.Register, disp int) Mem { return Mem{Base: base, Disp: disp} }

// scaled is base + index*scale + disp.
func scaled(base, index reg.Register, scale uint8, disp int) Mem {
	return Mem{Base: base, Index: index, Scale: scale, Disp: disp}
}
