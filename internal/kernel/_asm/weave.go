package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// A woven shape finishes a unit's pending vectors instruction by instruction
// between the products of weaveKits value rows. On a core whose multiply-add
// ports do little else (Zen 5) a block of other instructions would let them wait.

// weaveKits is the number of value rows for the weaving of a unit's pending vectors;
// more may precede the next unit. 4 gains most at 50, 100 and 200 units (2, 3 and 5
// were tried; with 5 a sample's first row tile of 50 units has too few).
const weaveKits = 4

// wovenTemps are the registers of vector v between the products. All vectors
// share k, the register of a weight, which holds nothing between two rows.
func (s shape) wovenTemps(v int) temps {
	own := s.regs[s.firstWoven()+3*v:]
	return temps{
		x: at(pending, v*s.bytes), a: own[0], y: own[1], t: own[2], k: s.regs[s.firstWoven()-1],
		pins: s.temps().pins, disp: v * s.bytes,
	}
}

// firstWoven is the first register after the accumulators, values and the weight.
func (s shape) firstWoven() int { return (s.rows+1)*s.vectors + 1 }

// finishing are the instructions of finish for vector v, with instructions that
// use k in one step. The update is one of the steps. The limit to 1 is omitted:
// no argument up to the saturation exceeds 1 (TestTanhNearOne).
func (s shape) finishing(v int, id string) []func() {
	r := s.wovenTemps(v)
	list := []func(){
		func() { VANDNPS(r.x, r.pins[constSign], r.a) },
		func() { VMINPS(r.a, r.pins[constSaturation], r.a) }, // in this order NaN stays
		func() { VADDPS(r.pins[constShift], r.a, r.y) },
		func() { VANDPS(r.constant(constEdge), r.y, r.t) },
		func() { VPSRLD(U8(21), r.y, r.y) },
		func() { VSUBPS(r.pins[constShift], r.t, r.t) },
		func() { VSUBPS(r.t, r.a, r.t) },
		func() { VPERMPS(r.constant(constTable+5), r.y, r.a) },
	}
	for power := 4; power >= 0; power-- {
		list = append(list, func() {
			VPERMPS(r.constant(constTable+power), r.y, r.k)
			VFMADD213PS(r.k, r.t, r.a)
		})
	}
	return append(list,
		func() { VPTERNLOGD(U8(0xf8), r.x, r.pins[constSign], r.a) },
		func() { s.update(r, fmt.Sprintf("%s_%d", id, v)) })
}

// weave emits weaveKits kits of m rows with the next unit's pending vectors
// between them, and a loop for the remaining value rows before the unit after.
func (s shape) weave(m int, id string) {
	var list []func()
	for i := range s.finishing(0, "") {
		for v := range s.vectors {
			list = append(list, s.finishing(v, "_"+id)[i])
		}
	}
	gaps, gap, done := weaveKits*m, 0, 0
	for n := range weaveKits {
		s.kitAround(m, n, func() {
			gap++
			for ; done*gaps < len(list)*gap && done < len(list); done++ {
				list[done]()
			}
		})
	}
	s.moveOn(m, weaveKits)
	ADDQ(Imm(uint64(s.rowBytes())), pending)
	ADDQ(Imm(uint64(s.rowBytes())), offset)
	MOVQ(tileField(entry, "kits"), count)
	SUBQ(Imm(weaveKits), count)
	s.some(m, "more"+id)
}

// wovenPins are the constants with a register of their own.
var wovenPins = []int{constSign, constSaturation, constShift}
