package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Without a one-instruction look-up the tanh takes its coefficients by address.
// On Zen 3 a permutation keeps a multiply-add unit busy for a cycle and a
// variable blend for half a cycle, and a store of a vector register stops both
// units for a cycle; loads cost the units nothing, shuffles within a half and
// blends by a constant little. So each lane's coefficients are loaded as a row,
// and blends and shuffles bring the lanes together:
//
// Two lanes of a half load powers 0 to 3, the second lane one place further, so
// that one blend takes the even powers of both and another the odd powers; from
// two such pairs of lanes a shuffle makes one power of all four. Powers 4 and 5
// are loaded to the place where a shuffle reads them.
//
// The table has rows for negative arguments, too, with the even powers negated:
// the distance keeps the argument's sign, so that the polynomial has the right
// sign. Every rounding is symmetric, so the bits equal the polynomial in the
// magnitude with the sign applied afterwards. The limit to 1 is omitted: no
// argument up to the saturation exceeds 1 (TestTanhNearOne).
//
// A vector of arguments passes five phases with products between them, because
// a core looks ahead over at most some hundred vector operations: a long wait
// in one place delays the following products, and every operation that writes a
// vector register takes from the room. So each phase has at most two steps of
// the polynomial, and loads the intervals for the next phase. Two vectors in
// memory, written by locate, represent each vector of arguments; between the
// phases three registers are kept, and the intervals of four lanes.

// behindDistance is the offset of the distances from the intervals' edges, with
// the arguments' signs, after the pending vectors: these hold the edges plus
// the shift, whose upper halves give the interval and the sign.
const behindDistance = 512

// phases a pending vector passes.
const phases = 5

// stages are the registers of the phases: three kept registers, and three that
// hold nothing between products.
type stages struct {
	p, even, odd reg.VecPhysical
	a, k, t      reg.VecPhysical
}

func (s shape) stages() stages {
	r, free := s.regs[13:], s.regs[s.rows*s.vectors:]
	return stages{p: r[0], even: r[1], odd: r[2], a: free[0], k: free[1], t: free[2]}
}

// locate stores a row tile's arguments, which are still in the accumulators, at
// base in the form for the phases.
func (s shape) locate(m int, base reg.Register) {
	k, t := s.regs[10], s.regs[11]
	sign, saturation, negative, shift := s.regs[12], s.regs[13], s.regs[14], s.regs[15]
	VMOVUPS(vector(consts, constSign), sign)
	VMOVUPS(vector(consts, constSaturation), saturation)
	VMOVUPS(vector(consts, constShift), shift)
	VORPS(sign, saturation, negative)
	for i := range m * s.vectors {
		x, place := s.acc(i/s.vectors, i%s.vectors), at(base, i*s.bytes)
		VANDPS(x, sign, t)
		VMINPS(x, saturation, x) // in this order NaN stays
		VORPS(shift, t, t)
		VMAXPS(x, negative, x)
		VADDPS(t, x, k)
		if i == 0 { // no register is free yet
			VANDPS(vector(consts, constEdge), k, k)
		} else {
			VANDPS(s.acc(0, 0), k, k)
		}
		VMOVUPS(k, place)
		VSUBPS(t, k, k)
		VSUBPS(k, x, x)
		VMOVUPS(x, place.Offset(behindDistance))
		if i == 0 {
			VMOVUPS(vector(consts, constEdge), s.acc(0, 0))
		}
	}
}

// firstRow is the addend of the look-up for the first interval, which begins at
// .625: the upper half of .625, in units of two bytes. An interval is 32 units,
// a row of 64 bytes; a sign is 64 KiB.
const firstRow = 2 * 0x3f20

// laneRows are the registers for four lanes' intervals.
var laneRows = []reg.GPPhysical{reg.RDX, reg.R12, reg.R14, reg.R15}

// find loads the intervals of four lanes: first, first+4, first+1, first+5.
func (r stages) find(place Mem, first int) {
	for i, lane := range []int{0, 4, 1, 5} {
		MOVWLZX(place.Offset(4*(first+lane)+2), laneRows[i].As32())
	}
}

// row is the operand of the i-th lane's row, from a byte on. A row has 24 bytes
// to spare, powers 4 and 5, powers 0 to 3, and powers 3, 0, 1, 2; each read of
// a row stays within one cache line.
func (r stages) row(i, at int) Mem { return scaled(consts, laneRows[i], 2, 64*constRows-firstRow+at) }

// pairs loads powers 4 and 5 of the four lanes found.
func (r stages) pairs(dst reg.VecPhysical) {
	pair := func(i, quarter int) Mem { return r.row(i, 24-8*quarter) }
	VMOVUPS(pair(0, 0), dst)
	VBLENDPS(U8(0x30), pair(1, 2), dst, dst)
	VBLENDPS(U8(0x0c), pair(2, 1), dst, dst)
	VBLENDPS(U8(0xc0), pair(3, 3), dst, dst)
}

// quads loads powers 0 to 3 of the four lanes found. In each half, of two lanes
// a and b, even gets powers a0 b0 a2 b2 and odd b3 a1 b1 a3.
func (r stages) quads(even, odd reg.VecPhysical) {
	VMOVUPS(r.row(0, 32), r.a.AsX())
	VBLENDPS(U8(0xf0), r.row(1, 16), r.a, r.a)
	VMOVUPS(r.row(2, 48), r.k.AsX())
	VBLENDPS(U8(0xf0), r.row(3, 32), r.k, r.k)
	VBLENDPS(U8(0xaa), r.k, r.a, even)
	VBLENDPS(U8(0x55), r.k, r.a, odd)
}

// phase emits phase n of the next pending vector.
func (s shape) phase(n int, id string) {
	r, place := s.stages(), at(pending, 0)
	distance := place.Offset(behindDistance)
	switch n {
	case 0: // the coefficients of lanes 0, 1, 4, 5
		r.pairs(r.p)
		r.quads(r.even, r.odd)
		r.find(place, 2)
	case 1: // powers 4 and 5 of the other lanes, and the polynomial's first step
		r.pairs(r.t)
		VSHUFPS(U8(0xdd), r.t, r.p, r.k) // c5
		VSHUFPS(U8(0x88), r.t, r.p, r.p) // c4
		VFMADD231PS(distance, r.k, r.p)
	case 2: // powers 0 to 3 of the other lanes, and two steps; powers 1 and 0 stay in odd and even
		even, odd := r.t, r.a
		r.quads(even, odd)
		r.find(place.Offset(s.bytes), 0) // after the last vector: not used
		VSHUFPS(U8(0x33), odd, r.odd, r.k)
		VFMADD132PS(distance, r.k, r.p)
		VSHUFPS(U8(0xee), even, r.even, r.k)
		VFMADD132PS(distance, r.k, r.p)
		VSHUFPS(U8(0x99), odd, r.odd, r.odd)
		VSHUFPS(U8(0x44), even, r.even, r.even)
	case 3: // the last steps
		VFMADD132PS(distance, r.odd, r.p)
		VFMADD132PS(distance, r.even, r.p)
	case 4: // the new state; sums elsewhere
		TESTQ(sums, sums)
		JNZ(LabelRef("more" + id))
		VBROADCASTSS(field("Gain"), r.k)
		VFMADD213PS(scaled(oldState, pending, 1, 0), r.k, r.p)
		VMOVUPS(r.p, scaled(newState, pending, 1, 0))
		Label("updated" + id)
		ADDQ(Imm(uint64(s.bytes)), pending)
	}
}

// more does the rest of phase 4: sums, and a keep other than 1. A tanh is
// positive if its argument is.
func (s shape) more(id string) {
	r := s.stages()
	Label("more" + id)
	s.update(temps{x: r.p, a: r.p, y: r.a, t: r.t, k: r.k, offset: pending}, id)
	JMP(LabelRef("updated" + id))
}
