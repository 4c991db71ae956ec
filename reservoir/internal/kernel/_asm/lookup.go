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
// A vector of arguments passes three stages, each one vector apart and with
// products between them, because a core looks ahead over no more than some
// hundred vector operations: locate makes addresses and the distance from the
// interval's edge, collect the coefficients, evaluate the tanh. What one stage
// leaves to the next stands behind the vector in its buffer, or in the three
// registers kept.

// Places behind a pending vector.
const (
	behindDistance = 512
	behindRows     = 1024
	behindPower0   = behindRows // whose addresses have served
	behindPower1   = 1536
)

// stages are the registers of the three stages: three kept between collect and
// evaluate, and three that hold nothing from one vector to the next.
type stages struct {
	p, c3, c2 reg.VecPhysical // c5*distance + c4, and two coefficients
	a, k, t   reg.VecPhysical
}

func (s shape) stages() stages {
	r, free := s.regs[13:], s.regs[s.rows*s.vectors:]
	return stages{p: r[0], c3: r[1], c2: r[2], a: free[0], k: free[1], t: free[2]}
}

// locate makes the addresses and distances of the arguments at place.
func (r stages) locate(place Mem) {
	VMOVUPS(vector(consts, constAbs), r.a)
	VANDPS(place, r.a, r.a)
	VMOVUPS(vector(consts, constSaturation), r.k)
	VMINPS(r.a, r.k, r.a) // in this order NaN stays
	VADDPS(vector(consts, constShift), r.a, r.t)
	VPSRLD(U8(18), r.t, r.k)
	VANDPS(vector(consts, constRow), r.k, r.k)
	VMOVUPS(r.k, place.Offset(behindRows))
	VANDPS(vector(consts, constEdge), r.t, r.t)
	VSUBPS(vector(consts, constShift), r.t, r.t)
	VSUBPS(r.t, r.a, r.t)
	VMOVUPS(r.t, place.Offset(behindDistance))
}

// ahead is how many vectors before its coefficients are collected a vector's
// addresses are made.
const ahead = 3

// prepare makes the vector at place ready for evaluate, in three stages.
func (r stages) prepare(place Mem, between func()) {
	r.collectPairs(place)
	between()
	r.collectQuads(place)
	between()
	r.locate(place.Offset(ahead * 32))
	between()
}

// row is the address of a lane's coefficients less the table's, in units of
// half a row of four.
func (r stages) row(place Mem, lane int, into reg.GPPhysical) reg.GPPhysical {
	MOVL(place.Offset(behindRows+4*lane), into.As32().(reg.GPPhysical))
	return into
}

// collectPairs takes the coefficients of powers 5 and 4 of the vector at place
// and does the first step of the polynomial.
func (r stages) collectPairs(place Mem) {
	pairs := func(v reg.VecPhysical, lanes [4]int) {
		for i, lane := range lanes {
			into := []reg.GPPhysical{reg.RDX, reg.R14, reg.R15}[lane%3]
			from := scaled(consts, r.row(place, lane, into), 1, 64*constPairs-8*i)
			if i == 0 {
				VMOVUPS(from, v)
			} else {
				VBLENDPS(U8(3<<(2*i)), from, v, v)
			}
		}
	}
	pairs(r.k, [4]int{0, 1, 4, 5})
	pairs(r.t, [4]int{2, 3, 6, 7})
	VSHUFPS(U8(0xdd), r.t, r.k, r.p)
	VSHUFPS(U8(0x88), r.t, r.k, r.k)
	VFMADD132PS(place.Offset(behindDistance), r.k, r.p)
}

// collectQuads takes the others.
func (r stages) collectQuads(place Mem) {
	quad := func(lane int, v reg.VecPhysical) {
		table := 64 * (constQuads + 4*lane)
		VMOVUPS(scaled(consts, r.row(place, lane, reg.RDX), 2, table), v.AsX())
		VBLENDPS(U8(0xf0), scaled(consts, r.row(place, 4+lane, reg.R14), 2, table-16), v, v)
	}
	// Even and odd columns of the first of two lanes with the other columns
	// of the second.
	even01, odd01, even23, odd23 := r.c2, r.k, r.c3, r.t
	quad(0, r.k)
	quad(1, r.t)
	VBLENDPS(U8(0xaa), r.t, r.k, even01)
	VBLENDPS(U8(0x55), r.t, r.k, odd01)
	quad(2, r.t)
	quad(3, r.a)
	VBLENDPS(U8(0xaa), r.a, r.t, even23)
	VBLENDPS(U8(0x55), r.a, r.t, odd23)
	VBLENDPS(U8(0xcc), even23, even01, r.a)
	VMOVUPS(r.a, place.Offset(behindPower0))
	VBLENDPS(U8(0x33), even23, even01, r.c2)
	VSHUFPS(U8(0x4e), r.c2, r.c2, r.c2)
	VBLENDPS(U8(0x66), odd23, odd01, r.c3)
	VSHUFPS(U8(0x93), r.c3, r.c3, r.c3)
	VBLENDPS(U8(0x99), odd23, odd01, r.k)
	VSHUFPS(U8(0x39), r.k, r.k, r.k)
	VMOVUPS(r.k, place.Offset(behindPower1))
}

// evaluate leaves the canonical tanh of the vector at place in p.
func (r stages) evaluate(place Mem) {
	VMOVUPS(place.Offset(behindDistance), r.t)
	VFMADD213PS(r.c3, r.t, r.p)
	VFMADD213PS(r.c2, r.t, r.p)
	VFMADD213PS(place.Offset(behindPower1), r.t, r.p)
	VFMADD213PS(place.Offset(behindPower0), r.t, r.p)
	VMOVUPS(vector(consts, constOne), r.k)
	VMINPS(r.p, r.k, r.p)
	VMOVUPS(vector(consts, constSign), r.t)
	VANDPS(place, r.t, r.t)
	VORPS(r.t, r.p, r.p)
}
