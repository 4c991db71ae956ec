package main

import "fmt"

// Registers of the moves between rows and tiles.
const (
	tile   = "R0" // vector of the tile's next word
	stride = "R1" // bytes from a word to the next in the tile
	rows   = "R2" // array of row pointers; of spread and collect, the row
	left   = "R3" // words to go
	word   = "R4"
)

// row is the register of row l's next word.
func row(l int) string { return fmt.Sprintf("R%d", 5+l) }

// transposition begins load and store: rows' places in their registers.
func (f *file) transposition(name, tileName, doc string) {
	f.function(name, fmt.Sprintf("(%s *float32, stride int, rows **uint32, offset, n int)", tileName), 40, doc)
	f.op("MOVD", "%s+0(FP), %s", tileName, tile)
	f.op("MOVD", "stride+8(FP), %s", stride)
	f.op("MOVD", "rows+16(FP), %s", rows)
	f.op("MOVD", "offset+24(FP), %s", word)
	f.op("MOVD", "n+32(FP), %s", left)
	for l := range pairLanes {
		f.op("MOVD", "%d(%s), %s", 8*l, rows, row(l))
		f.op("ADD", "%s, %s", word, row(l))
	}
}

// load copies words of scattered rows into a tile, word by word side by side.
func (f *file) load() {
	f.transposition("load", "dst", "copies n words of 8 rows, from byte offset on, to a tile: word i of row l to lane l of the vector i strides behind dst.")
	f.blocks(4, func() {
		for l := range pairLanes {
			f.op("FMOVQ.P", "16(%s), %s", row(l), vec(l).f())
		}
		for _, v := range f.turn() {
			f.op("FSTPQ", "%v, (%s)", v, tile)
			f.op("ADD", "%s, %s", stride, tile)
		}
	}, nil, func() {
		for l := range pairLanes {
			f.op("MOVWU.P", "4(%s), %s", row(l), word)
			f.op("MOVW", "%s, %d(%s)", word, 4*l, tile)
		}
		f.op("ADD", "%s, %s", stride, tile)
	})
	f.op("RET", "")
}

// store is the way back.
func (f *file) store() {
	f.transposition("store", "src", "copies n words of a tile to 8 rows, from byte offset on: lane l of the vector i strides behind src to word i of row l.")
	f.blocks(4, func() {
		for i := range 4 {
			f.op("FLDPQ", "(%s), %v", tile, pair{vec(i), vec(4 + i)})
			f.op("ADD", "%s, %s", stride, tile)
		}
		for l, v := range f.turn() {
			f.op("FMOVQ.P", "%s, 16(%s)", v[0].f(), row(l))
			f.op("FMOVQ.P", "%s, 16(%s)", v[1].f(), row(4+l))
		}
	}, nil, func() {
		for l := range pairLanes {
			f.op("MOVWU", "%d(%s), %s", 4*l, tile, word)
			f.op("MOVW.P", "%s, 4(%s)", word, row(l))
		}
		f.op("ADD", "%s, %s", stride, tile)
	})
	f.op("RET", "")
}

// blocks emits a loop over the remaining words, n at a time, and a loop over
// the rest, if any, word by word.
func (f *file) blocks(n int, many, rest, one func()) {
	f.op("SUBS", "$%d, %s", n, left)
	f.op("BLT", "rest")
	f.label("block")
	many()
	f.op("SUBS", "$%d, %s", n, left)
	f.op("BGE", "block")
	f.label("rest")
	f.op("ADDS", "$%d, %s", n, left)
	f.op("BEQ", "done")
	if rest != nil {
		rest()
	}
	f.label("one")
	one()
	f.op("SUBS", "$1, %s", left)
	f.op("BNE", "one")
	f.label("done")
}

// turn turns registers 0 to 3 and 4 to 7, four lanes each, over their
// diagonals. Column j of both halves is the j-th pair of the result.
func (f *file) turn() [4]pair {
	var columns [4]pair
	for half := range 2 {
		a, t := vec(4*half), vec(16+4*half)
		for i := range vec(2) { // of two neighbors: lanes 0 and 2, lanes 1 and 3
			f.op("VTRN1", "%s, %s, %s", (a + 2*i + 1).s(), (a + 2*i).s(), (t + 2*i).s())
			f.op("VTRN2", "%s, %s, %s", (a + 2*i + 1).s(), (a + 2*i).s(), (t + 2*i + 1).s())
		}
		for i := range vec(2) {
			out := vec(8+4*half) + i
			f.op("VZIP1", "%s, %s, %s", (t + 2 + i).d(), (t + i).d(), out.d())
			f.op("VZIP2", "%s, %s, %s", (t + 2 + i).d(), (t + i).d(), (out + 2).d())
		}
		for j := range columns {
			columns[j][half] = vec(8 + 4*half + j)
		}
	}
	return columns
}

// spread copies words of one row to vectors some stride apart, collect is the
// way back: how a single stream's units get into lanes.
func (f *file) spread() {
	f.function("spread", "(dst *float32, stride int, src *uint32, n int)", 32,
		"copies n words to vectors stride bytes apart, the last one filled up with zeros.")
	f.spreadArgs("dst", "src")
	v, zero := pairAt(0), pair{2, 2}
	f.op("VEOR", "%s, %s, %s", zero[0].b(), zero[0].b(), zero[0].b())
	f.blocks(pairLanes, func() {
		f.op("FLDPQ.P", "%d(%s), %v", pairBytes, rows, v)
		f.op("FSTPQ", "%v, (%s)", v, tile)
		f.op("ADD", "%s, %s", stride, tile)
	}, func() {
		f.op("FSTPQ", "%v, (%s)", zero, tile)
	}, func() {
		f.op("MOVWU.P", "4(%s), %s", rows, word)
		f.op("MOVW.P", "%s, 4(%s)", word, tile)
	})
	f.op("RET", "")
}

func (f *file) collect() {
	f.function("collect", "(src *float32, stride int, dst *uint32, n int)", 32,
		"copies n words from vectors stride bytes apart.")
	f.spreadArgs("src", "dst")
	v := pairAt(0)
	f.blocks(pairLanes, func() {
		f.op("FLDPQ", "(%s), %v", tile, v)
		f.op("FSTPQ.P", "%v, %d(%s)", v, pairBytes, rows)
		f.op("ADD", "%s, %s", stride, tile)
	}, nil, func() {
		f.op("MOVWU.P", "4(%s), %s", tile, word)
		f.op("MOVW.P", "%s, 4(%s)", word, rows)
	})
	f.op("RET", "")
}

func (f *file) spreadArgs(vectors, words string) {
	f.op("MOVD", "%s+0(FP), %s", vectors, tile)
	f.op("MOVD", "stride+8(FP), %s", stride)
	f.op("MOVD", "%s+16(FP), %s", words, rows)
	f.op("MOVD", "n+24(FP), %s", left)
}

// prefetch loads rows before their use. A prefetch never faults.
func (f *file) prefetch() {
	f.function("prefetch", "(rows **uint32, lanes, offset, bytes int)", 32, "asks for the cache lines of bytes from byte offset on in the given rows.")
	const lanes, offset, bytes, line, end = "R1", "R3", "R4", "R5", "R6"
	f.op("MOVD", "rows+0(FP), %s", rows)
	f.op("MOVD", "lanes+8(FP), %s", lanes)
	f.op("MOVD", "offset+16(FP), %s", offset)
	f.op("MOVD", "bytes+24(FP), %s", bytes)
	f.label("row")
	f.op("MOVD.P", "8(%s), %s", rows, line)
	f.op("ADD", "%s, %s", offset, line)
	f.op("ADD", "%s, %s, %s", bytes, line, end)
	f.op("AND", "$~63, %s", line)
	f.label("line")
	f.op("PRFM", "(%s), PLDL1KEEP", line)
	f.op("ADD", "$64, %s", line)
	f.op("CMP", "%s, %s", end, line)
	f.op("BLO", "line")
	f.op("SUBS", "$1, %s", lanes)
	f.op("BNE", "row")
	f.op("RET", "")
}
