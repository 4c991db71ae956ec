package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The counts of kind mixed on AVX-512; pairs.go has the rest.

// counting is accumulate and count for all units, in parts.
func (p *pairs) counting() (parts []func()) {
	for j := range 8 {
		parts = append(parts, func() {
			VMOVUPS(at(mixedState, mixedH+64*j), p.temps[0])
			p.accumulate(j, p.temps[0])
		})
	}
	for half := range 2 {
		parts = append(parts, func() { p.countSigns(half) }, func() { p.wins(half) }, func() { p.losses(half) })
	}
	return parts
}

// quiet keeps the signs of an uncounted sample.
func (p *pairs) quiet() {
	for half := range 2 {
		p.signs(half)
		KMOVQ(pairNew, pairSigns[half])
	}
}

// expand reads the signs of a group.
func (p *pairs) expand(half int) {
	mask, t := pairSigns[half], p.temps[0]
	KMOVQ(at(pairBits, 8*half), mask)
	VPMOVM2B(mask, t)
	p.turn(t)
	VPMOVB2M(t, mask)
}

// collapse writes the signs.
func (p *pairs) collapse(half int) {
	mask, t := pairSigns[half], p.temps[0]
	VPMOVM2B(mask, t)
	p.turn(t)
	VPMOVB2M(t, mask)
	KMOVQ(mask, at(pairBits, 8*half))
}

// turn puts packed bytes into the order of the state, or back.
func (p *pairs) turn(v reg.VecPhysical) {
	VMOVDQU64(at(mixedConst, pairTurn), p.temps[1])
	VPERMD(v, p.temps[1], v)
}

// fold adds a group's bytes to its counts, with a minimum of operations across
// lanes: only one execution unit does these, and a call of one sample has many.
func (p *pairs) fold(n reg.VecPhysical, offset int) {
	low, high, zero := p.temps[0], p.temps[1], p.temps[2]
	VMOVDQU64(at(mixedConst, pairFold), high)
	VPERMD(n, high, n)
	VPXORD(zero, zero, zero)
	VPUNPCKLBW(zero, n, low)
	VPUNPCKHBW(zero, n, high)
	for i, t := range []reg.VecPhysical{low, high} {
		VPADDW(at(pairCounts, offset+64*i), t, t)
		VMOVDQU64(t, at(pairCounts, offset+64*i))
	}
}

// test jumps if the sample is not counted.
func (p *pairs) test(quiet string) {
	TESTQ(pairNumber, mixedField("Mask"))
	JNZ(LabelRef(quiet))
}

// signs makes the mask of a group's positive arguments.
func (p *pairs) signs(half int) {
	z, t := p.z[4*half:4*half+4], p.temps
	VPACKSSDW(z[1], z[0], t[0])
	VPACKSSDW(z[3], z[2], t[1])
	VPACKSSWB(t[1], t[0], t[0])
	VPCMPB(Imm(5), p.ones, t[0], pairNew) // at least 1
}

// count counts a group's signs and extremes.
func (p *pairs) count(half int) {
	p.countSigns(half)
	p.wins(half)
	p.losses(half)
}

func (p *pairs) countSigns(half int) {
	p.signs(half)
	KXORQ(pairNew, pairSigns[half], pairChanged)
	KMOVQ(pairNew, pairSigns[half])
	p.add(0, half, pairNew)
	p.add(1, half, pairChanged)
}

func (p *pairs) wins(half int) { p.extremes(2, half, VMAXPS, true) }

func (p *pairs) losses(half int) { p.extremes(3, half, VMINPS, false) }

// add counts the members of a mask.
func (p *pairs) add(kind, half int, mask reg.OpmaskPhysical) {
	if p.counts != nil {
		VPADDB(p.ones, p.counts[kind], mask, p.counts[kind])
		return
	}
	n := p.temps[3]
	VMOVDQU64(at(p.bytes[half], 64*kind), n)
	VPADDB(p.ones, n, mask, n)
	VMOVDQU64(n, at(p.bytes[half], 64*kind))
}

// extremes counts the units whose argument is the group's largest, or smallest,
// by a difference of 0.
func (p *pairs) extremes(kind, half int, choose func(...Op), largest bool) {
	z, best, a, b := p.z[4*half:4*half+4], p.temps[0], p.temps[1], p.temps[2]
	choose(z[0], z[1], best)
	choose(z[2], z[3], a)
	choose(best, a, best)
	VSHUFF64X2(Imm(0x4e), best, best, a)
	choose(best, a, best)
	difference := func(z, to reg.VecPhysical) { // 0 or more; none is too small for a number that is not 0
		if largest {
			VSUBPS(z, best, to)
		} else {
			VSUBPS(best, z, to)
		}
	}
	difference(z[0], a)
	difference(z[1], b)
	VPACKUSDW(b, a, a) // -0 becomes 0
	difference(z[2], b)
	difference(z[3], best)
	VPACKUSDW(best, b, b)
	VPACKSSWB(b, a, a)
	VPTESTNMB(a, a, pairNew)
	p.add(kind, half, pairNew)
}
