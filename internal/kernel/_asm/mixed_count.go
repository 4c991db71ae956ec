package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The counts of kind mixed on AVX2; mixed.go has the rest. During a call the counts
// are bytes, in MixedSteps.Signs: of each kind four vectors of four units each, in
// the order of packing, as negative numbers, since a mask's bytes are -1; then the
// signs, as masks.

func mixedCount(base reg.Register, kind, units int) Mem { return at(base, 128*kind+32*units) }

func mixedSign(units int) Mem { return mixedCount(mixedCounts, 4, units) }

// begin reads the signs.
func (m mixed) begin() {
	which, where := avx2.regs[0], avx2.regs[1]
	MOVQ(mixedField("Bits"), mixedSpare)
	VMOVDQU(at(mixedConst, mixedByte), which)
	VMOVDQU(at(mixedConst, mixedBit), where)
	for units := range 4 {
		mask := avx2.regs[2+units]
		VPBROADCASTD(at(mixedSpare, 4*units), mask)
		VPSHUFB(which, mask, mask)
		VPAND(where, mask, mask)
		VPCMPEQB(where, mask, mask)
		VMOVDQU(mask, mixedSign(units))
	}
}

// end adds the counts to the state's counts and writes the signs.
func (m mixed) end() {
	way, apart, n, t := avx2.regs[0], avx2.regs[1], avx2.regs[2], avx2.regs[3]
	MOVQ(mixedField("Bits"), mixedSpare)
	VMOVDQU(at(mixedConst, mixedTurn), way)
	VPERMQ(Imm(0xd8), way, apart) // for each half of the vector two units that are two apart
	for units := range 4 {
		VPERMD(mixedSign(units), way, n)
		VPMOVMSKB(n, mixedLeft.As32())
		MOVL(mixedLeft.As32(), at(mixedSpare, 4*units))
		for kind := range 4 {
			to := mixedPpv + 256*kind + 64*units
			VPSUBB(mixedCount(mixedBefore, kind, units), mixedZero, n)
			VPERMD(n, apart, n)
			VPUNPCKLBW(mixedZero, n, t)
			VPADDW(at(mixedState, to), t, t)
			VMOVDQU(t, at(mixedState, to))
			VPUNPCKHBW(mixedZero, n, n)
			VPADDW(at(mixedState, to+32), n, n)
			VMOVDQU(n, at(mixedState, to+32))
		}
	}
}

// signs makes the masks of the positive arguments; for a counted sample, signs
// counts them, and the changes.
func (m mixed) signs(group int, counted bool) {
	mask, t := avx2.regs[8], avx2.regs[9]
	for half := range 2 {
		z, units := avx2.regs[4*half:4*half+4], 2*group+half
		VPACKSSDW(z[1], z[0], mask)
		VPACKSSDW(z[3], z[2], t)
		VPACKSSWB(t, mask, mask)
		VPCMPGTB(mixedZero, mask, mask)
		if counted {
			VPXOR(mixedSign(units), mask, t)
			countMask(mask, avx2.regs[10], 0, units)
			countMask(t, t, 1, units)
		}
		VMOVDQU(mask, mixedSign(units))
	}
}

// countMask counts the members of a mask.
func countMask(mask, n reg.VecPhysical, kind, units int) {
	VPADDB(mixedCount(mixedBefore, kind, units), mask, n)
	VMOVDQU(n, mixedCount(mixedCounts, kind, units))
}

// extremes counts the units whose argument is the group's largest, or smallest.
func (m mixed) extremes(group, kind int, choose func(...Op)) {
	z, best, a, b, n := avx2.regs[0:8], avx2.regs[8], avx2.regs[9], avx2.regs[10], avx2.regs[11]
	choose(z[0], z[1], best)
	choose(z[2], z[3], a)
	choose(z[4], z[5], b)
	choose(z[6], z[7], n)
	choose(best, a, best)
	choose(b, n, b)
	choose(best, b, best)
	for half := range 2 {
		z := z[4*half:]
		VCMPPS(Imm(0), z[0], best, a)
		VCMPPS(Imm(0), z[1], best, b)
		VPACKSSDW(b, a, a)
		VCMPPS(Imm(0), z[2], best, b)
		VCMPPS(Imm(0), z[3], best, n)
		VPACKSSDW(n, b, b)
		VPACKSSWB(b, a, a)
		countMask(a, a, kind, 2*group+half)
	}
}
