package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Without a one-instruction look-up the tanh takes its coefficients by
// address. On Zen 3 a permutation keeps a multiply-add unit busy for a cycle
// and a variable blend for half of one; loads and blends by a constant cost
// the units nothing. So each lane's coefficients are loaded as a row, and
// blends bring the lanes together:
//
// Lane j of a half loads powers 0 to 3 turned by j places, so that power k of
// lane j stands in column j+k. For each power the four lanes are in four
// different columns: blends collect them, and one shuffle turns them back.
// Powers 4 and 5 are loaded to the place where a shuffle wants them.
//
// A vector of arguments passes several stages with products between them,
// because a core looks ahead over no more than some hundred vector operations:
// locate makes addresses and the distance from the interval's edge,
// collectFirst and collectSecond the coefficients, steps32 and steps10 the
// polynomial. What one stage leaves to the next stands behind the vector in
// its buffer, or in the three registers kept.

// Places behind a pending vector, which is no more than the arguments' signs.
const (
	behindDistance = 512
	behindRows     = 1024
	behindPower0   = behindRows // whose addresses have served
	behindPower1   = 1536
	behindEven     = behindPower1 // before it
)

// stages are the registers of the stages: three kept from collectSecond on,
// and three that hold nothing between products.
type stages struct {
	p, c3, c2 reg.VecPhysical // c5*distance + c4, and two coefficients
	a, k, t   reg.VecPhysical
}

func (s shape) stages() stages {
	r, free := s.regs[13:], s.regs[s.rows*s.vectors:]
	return stages{p: r[0], c3: r[1], c2: r[2], a: free[0], k: free[1], t: free[2]}
}

// locate does the first stage of a row tile's arguments, which are still in
// the accumulators.
func (s shape) locate(m int, base reg.Register) {
	sign, saturation, shift, edge := s.regs[12], s.regs[13], s.regs[14], s.regs[15]
	VMOVUPS(vector(consts, constSign), sign)
	VMOVUPS(vector(consts, constSaturation), saturation)
	VMOVUPS(vector(consts, constShift), shift)
	VMOVUPS(vector(consts, constEdge), edge)
	t, k := s.regs[10], s.regs[11]
	for i := range m * s.vectors {
		x, place := s.acc(i/s.vectors, i%s.vectors), at(base, i*s.bytes)
		VANDPS(sign, x, t)
		VMOVUPS(t, place)
		VANDNPS(x, sign, x)
		VMINPS(x, saturation, x) // in this order NaN stays
		VADDPS(shift, x, t)
		VANDPS(edge, t, t)
		VSUBPS(shift, t, k)
		VSUBPS(k, x, x)
		VMOVUPS(x, place.Offset(behindDistance))
		VPSLLD(U8(7), t, t) // bits 21 to 24 become 3 to 6
		VPSRLD(U8(25), t, t)
		VMOVUPS(t, place.Offset(behindRows))
	}
}

// lane takes a lane's coefficients: powers 4 and 5 to the quarter-th pair of
// pairs, the others to half half of quads. The first of each clears what it
// does not set.
func (r stages) lane(place Mem, lane, quarter int, pairs, quads reg.VecPhysical) {
	row := []reg.GPPhysical{reg.RDX, reg.R14, reg.R15}[lane%3]
	MOVL(place.Offset(behindRows+4*lane), row.As32().(reg.GPPhysical))
	if from := scaled(consts, row, 1, 64*constPairs-8*quarter); quarter == 0 {
		VMOVUPS(from, pairs)
	} else {
		VBLENDPS(U8(3<<(2*quarter)), from, pairs, pairs)
	}
	from := scaled(consts, row, 2, 64*(constQuads+4*(lane%4)))
	if lane < 4 {
		VMOVUPS(from, quads.AsX())
	} else {
		VBLENDPS(U8(0xf0), from.Offset(-16), quads, quads)
	}
}

// collectFirst takes the coefficients of lanes 0, 1, 4 and 5: it leaves pairs
// in c2, odd columns in c3 and even columns behind.
func (r stages) collectFirst(place Mem) {
	r.lane(place, 0, 0, r.c2, r.k)
	r.lane(place, 4, 2, r.c2, r.k)
	r.lane(place, 1, 1, r.c2, r.t)
	r.lane(place, 5, 3, r.c2, r.t)
	VBLENDPS(U8(0xaa), r.t, r.k, r.a)
	VMOVUPS(r.a, place.Offset(behindEven))
	VBLENDPS(U8(0x55), r.t, r.k, r.c3)
}

// collectSecond takes the others, brings the lanes together and does the first
// step of the polynomial.
func (r stages) collectSecond(place Mem) {
	r.lane(place, 2, 0, r.a, r.k)
	r.lane(place, 6, 2, r.a, r.k)
	r.lane(place, 3, 1, r.a, r.t)
	r.lane(place, 7, 3, r.a, r.t)
	VSHUFPS(U8(0xdd), r.a, r.c2, r.p) // c5
	VSHUFPS(U8(0x88), r.a, r.c2, r.a) // c4
	VFMADD132PS(place.Offset(behindDistance), r.a, r.p)
	even, odd := r.a, r.t
	VBLENDPS(U8(0xaa), r.t, r.k, even)
	VBLENDPS(U8(0x55), r.t, r.k, odd)
	VBLENDPS(U8(0x33), place.Offset(behindEven), even, r.k)
	VMOVUPS(r.k, place.Offset(behindPower0))
	VBLENDPS(U8(0xcc), place.Offset(behindEven), even, r.c2)
	VSHUFPS(U8(0x4e), r.c2, r.c2, r.c2)
	VBLENDPS(U8(0x99), odd, r.c3, r.k)
	VSHUFPS(U8(0x39), r.k, r.k, r.k)
	VMOVUPS(r.k, place.Offset(behindPower1))
	VBLENDPS(U8(0x66), odd, r.c3, r.c3)
	VSHUFPS(U8(0x93), r.c3, r.c3, r.c3)
}

// steps32 and steps10 do the other steps of the polynomial.
func (r stages) steps32(place Mem) {
	VFMADD132PS(place.Offset(behindDistance), r.c3, r.p)
	VFMADD132PS(place.Offset(behindDistance), r.c2, r.p)
}

func (r stages) steps10(place Mem) {
	VMOVUPS(place.Offset(behindDistance), r.a)
	VFMADD213PS(place.Offset(behindPower1), r.a, r.p)
	VFMADD213PS(place.Offset(behindPower0), r.a, r.p)
}

// sign leaves the canonical tanh in p.
func (r stages) sign(place Mem) {
	VMOVUPS(vector(consts, constOne), r.k)
	VMINPS(r.p, r.k, r.p)
	VORPS(place, r.p, r.p)
}
