package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Without a one-instruction look-up the tanh takes its coefficients by
// address. On Zen 3 a permutation keeps a multiply-add unit busy for a cycle
// and a variable blend for half of one, and a store of a vector register stops
// both units for a cycle; loads, shuffles within a half and blends by a
// constant cost the units nothing. So each lane's coefficients are loaded as a
// row, and blends bring the lanes together:
//
// Lane j of a half loads powers 0 to 3 turned by j places, so that power k of
// lane j stands in column j+k. For each power the four lanes are in four
// different columns: blends collect them, and one shuffle turns them back.
// Powers 4 and 5 are loaded to the place where a shuffle wants them.
//
// A vector of arguments passes five phases with products between them, because
// a core looks ahead over no more than some hundred vector operations: what
// waits long in one place holds up the products behind it. So no phase has more
// than two steps of the polynomial, and each loads the intervals for the next.
// Two vectors stand for each in memory, written by locate; between the phases
// three registers are kept, and the intervals of four lanes.

// behindDistance is where the distances from the intervals' edges stand,
// behind the pending vectors: those hold the signs of the arguments (bit 31)
// and the intervals (bits 20 to 23, in a byte that is otherwise zero).
const behindDistance = 512

// phases a pending vector passes.
const phases = 5

// stages are the registers of the phases: three that are kept, and three that
// hold nothing between products.
type stages struct {
	p, even, odd reg.VecPhysical
	a, k, t      reg.VecPhysical
}

func (s shape) stages() stages {
	r, free := s.regs[13:], s.regs[s.rows*s.vectors:]
	return stages{p: r[0], even: r[1], odd: r[2], a: free[0], k: free[1], t: free[2]}
}

// locate leaves a row tile's arguments, which are still in the accumulators,
// at base as the phases want them.
func (s shape) locate(m int, base reg.Register) {
	sign, saturation, shift, edge := s.regs[12], s.regs[13], s.regs[14], s.regs[15]
	VMOVUPS(vector(consts, constSign), sign)
	VMOVUPS(vector(consts, constSaturation), saturation)
	VMOVUPS(vector(consts, constShift), shift)
	t, k, l := s.regs[10], s.regs[11], edge
	for i := range m * s.vectors {
		x, place := s.acc(i/s.vectors, i%s.vectors), at(base, i*s.bytes)
		VANDNPS(x, sign, k)
		VMINPS(k, saturation, k) // in this order NaN stays
		VADDPS(shift, k, t)
		if i == 0 { // no register is free yet
			VANDPS(vector(consts, constEdge), t, t)
		} else {
			VANDPS(edge, t, t)
			l = s.acc((i-1)/s.vectors, (i-1)%s.vectors)
		}
		VSUBPS(shift, t, l)
		VSUBPS(l, k, k)
		VMOVUPS(k, place.Offset(behindDistance))
		VPSRLD(U8(1), t, t) // bits 21 to 24 become 20 to 23
		VANDPS(sign, x, x)
		VORPS(t, x, x)
		VMOVUPS(x, place)
		if i == 0 {
			VMOVUPS(vector(consts, constEdge), edge)
		}
	}
}

// laneRows are the registers for four lanes' intervals.
var laneRows = []reg.GPPhysical{reg.RDX, reg.R12, reg.R14, reg.R15}

// find loads the intervals of four lanes: first, first+4, first+1, first+5.
func (r stages) find(place Mem, first int) {
	for i, lane := range []int{0, 4, 1, 5} {
		MOVBLZX(place.Offset(4*(first+lane)+2), laneRows[i].As32())
	}
}

// pairs loads powers 4 and 5 of the four lanes found.
func (r stages) pairs(dst reg.VecPhysical) {
	pair := func(i, quarter int) Mem { return scaled(consts, laneRows[i], 4, 64*constPairs+24-8*quarter) }
	VMOVUPS(pair(0, 0), dst)
	VBLENDPS(U8(0x30), pair(1, 2), dst, dst)
	VBLENDPS(U8(0x0c), pair(2, 1), dst, dst)
	VBLENDPS(U8(0xc0), pair(3, 3), dst, dst)
}

// quads loads powers 0 to 3 of the four lanes found: columns first and
// first+4 to a, first+1 and first+5 to k.
func (r stages) quads(first int) {
	quad := func(i, turn int) Mem { return scaled(consts, laneRows[i], 4, 64*constQuads+16*turn) }
	if first == 0 { // not to read over the beginning of a cache line
		VBROADCASTF128(quad(1, 0), r.a)
		VBLENDPS(U8(0x0f), quad(0, 0), r.a, r.a)
	} else {
		VMOVUPS(quad(0, first), r.a.AsX())
		VBLENDPS(U8(0xf0), quad(1, first).Offset(-16), r.a, r.a)
	}
	VMOVUPS(quad(2, first+1), r.k.AsX())
	VBLENDPS(U8(0xf0), quad(3, first+1).Offset(-16), r.k, r.k)
}

// phase emits phase n of the next pending vector.
func (s shape) phase(n int, id string) {
	r, place := s.stages(), at(pending, 0)
	distance := place.Offset(behindDistance)
	switch n {
	case 0: // the coefficients of lanes 0, 1, 4, 5
		r.pairs(r.p)
		r.quads(0)
		VBLENDPS(U8(0xaa), r.k, r.a, r.even)
		VBLENDPS(U8(0x55), r.k, r.a, r.odd)
		r.find(place, 2)
	case 1: // powers 4 and 5 of the others, and the polynomial's first step
		r.pairs(r.t)
		VSHUFPS(U8(0xdd), r.t, r.p, r.k) // c5
		VSHUFPS(U8(0x88), r.t, r.p, r.p) // c4
		VFMADD231PS(distance, r.k, r.p)
	case 2: // powers 0 to 3 of the others, and two steps; powers 1 and 0 stay in odd and even
		r.quads(2)
		r.find(place.Offset(s.bytes), 0) // after the last vector: not used
		even, odd := r.t, r.a
		VBLENDPS(U8(0xaa), r.k, r.a, even)
		VBLENDPS(U8(0x55), r.k, r.a, odd)
		c3, c2 := r.k, r.k
		VBLENDPS(U8(0x66), odd, r.odd, c3)
		VSHUFPS(U8(0x93), c3, c3, c3)
		VFMADD132PS(distance, c3, r.p)
		VBLENDPS(U8(0xcc), r.even, even, c2)
		VSHUFPS(U8(0x4e), c2, c2, c2)
		VFMADD132PS(distance, c2, r.p)
		VBLENDPS(U8(0x99), odd, r.odd, r.odd)
		VSHUFPS(U8(0x39), r.odd, r.odd, r.odd)
		VBLENDPS(U8(0x33), r.even, even, r.even)
	case 3: // the last steps
		VMOVUPS(distance, r.a)
		VFMADD213PS(r.odd, r.a, r.p)
		VFMADD213PS(r.even, r.a, r.p)
	case 4: // the sign and the new state; sums elsewhere
		VMOVUPS(vector(consts, constOne), r.k)
		VMINPS(r.p, r.k, r.p)
		VMOVUPS(vector(consts, constSign), r.t)
		VANDPS(place, r.t, r.t)
		VORPS(r.t, r.p, r.p)
		TESTQ(sums, sums)
		JNZ(LabelRef("more" + id))
		VBROADCASTSS(field("Gain"), r.k)
		VFMADD213PS(scaled(oldState, pending, 1, 0), r.k, r.p)
		VMOVUPS(r.p, scaled(newState, pending, 1, 0))
		Label("updated" + id)
		ADDQ(Imm(uint64(s.bytes)), pending)
	}
}

// more is what phase 3 leaves out: sums, and a keep that is not 1. A tanh is
// positive where its argument is.
func (s shape) more(id string) {
	r := s.stages()
	Label("more" + id)
	s.update(temps{x: r.p, a: r.p, y: r.a, t: r.t, k: r.k, offset: pending}, id)
	JMP(LabelRef("updated" + id))
}
