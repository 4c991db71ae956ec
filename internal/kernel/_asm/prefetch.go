package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// prefetch loads rows into the level 2 cache before their use: the level 1 cache
// can wait for few lines at a time, and should wait for the lines needed now. A
// prefetch never faults.
func (g *isa) prefetch() {
	g.function("prefetch", "(rows **uint32, lanes, offset, bytes int)", "asks for the cache lines of bytes from byte offset on in the given rows.")
	lanes, bytes, line := reg.RCX, reg.R10, reg.R12
	Load(Param("rows"), rows)
	Load(Param("lanes"), lanes)
	Load(Param("offset"), place)
	Load(Param("bytes"), bytes)
	Label("row")
	MOVQ(at(rows, 0), row)
	ADDQ(place, row)
	LEAQ(scaled(row, bytes, 1, 0), line)
	ANDQ(I8(-64), row)
	Label("line")
	PREFETCHT1(at(row, 0))
	ADDQ(U32(64), row)
	CMPQ(row, line)
	JB(LabelRef("line"))
	ADDQ(U32(8), rows)
	DECQ(lanes)
	JNZ(LabelRef("row"))
	RET()
}
