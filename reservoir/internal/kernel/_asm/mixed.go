package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// mixedFields of kernel.MixedSteps, 8 bytes each, in order.
var mixedFields = []string{"Consts", "Weights", "Values", "State", "Bits", "Signs", "Held", "Inputs", "Count", "Number", "Mask"}

func mixedField(name string) Mem {
	for i, f := range mixedFields {
		if f == name {
			return Mem{Base: args, Disp: 8 * i}
		}
	}
	panic("no field " + name)
}

// Places in a block of the state, bytes: 16 units of 8 members; see
// docs/mixed-bank.md.
const (
	mixedUnits  = 16
	mixedH      = 0
	mixedSum    = 512
	mixedSquare = 1024
	mixedMax    = 1536
	mixedPpv    = 2048
	mixedSc     = 2304
	mixedWin    = 2560
	mixedLose   = 2816
)

// Places in kernel.mixedConsts, 32 bytes each.
const (
	mixedLow = iota
	mixedHigh
	mixedFactor
	mixedBits
)

// General purpose registers of mixed.
var (
	mixedWeights = reg.RSI
	mixedValues  = reg.R8
	mixedState   = reg.R9
	mixedMasks   = reg.R10
	mixedHeld    = reg.R11
	mixedNumber  = reg.R12
	mixedConst   = reg.R13
	mixedLeft    = reg.RCX
	mixedFirst   = reg.RDX // the sample's first value
	mixedBit     = reg.RAX
)

// The constants of the activation, and zero, stay in registers.
var (
	mixedConstants = []reg.VecPhysical{avx2.regs[12], avx2.regs[13], avx2.regs[14]}
	mixedZero      = avx2.regs[15]
)

// mixed advances a block of 8 members of kind mixed: one member a lane, a vector
// is one unit.
type mixed struct {
	recurrent, cubic bool
}

func (m mixed) name() string {
	name := "mixedTaps"
	if m.recurrent {
		name = "mixedRecurrent"
	}
	if m.cubic {
		return name + "Cubic"
	}
	return name + "Clip"
}

func (g *isa) mixed(m mixed) {
	g.function(m.name(), "(a *byte)", "advances a block of 8 members by a.Count samples.")
	Load(Param("a"), args)
	MOVQ(mixedField("Consts"), mixedConst)
	MOVQ(mixedField("State"), mixedState)
	MOVQ(mixedField("Signs"), mixedMasks)
	MOVQ(mixedField("Held"), mixedHeld)
	MOVQ(mixedField("Number"), mixedNumber)
	MOVQ(mixedField("Values"), mixedFirst)
	expandSigns()
	for i, v := range mixedConstants {
		VMOVUPS(at(mixedConst, 32*i), v)
	}
	VPXOR(mixedZero, mixedZero, mixedZero)
	Label("sample")
	MOVQ(mixedField("Weights"), mixedWeights)
	m.arguments("first", 0)
	if m.recurrent { // all arguments come of the states before the sample
		for i := range 8 {
			VMOVUPS(reg.VecPhysical(avx2.regs[i]), at(mixedHeld, 32*i))
		}
		m.arguments("second", 8)
		m.take("second", 8)
		for i := range 8 {
			VMOVUPS(at(mixedHeld, 32*i), avx2.regs[i])
		}
		m.take("first", 0)
	} else {
		m.take("first", 0)
		m.arguments("second", 8)
		m.take("second", 8)
	}
	MOVQ(mixedValues, mixedFirst)
	INCQ(mixedNumber)
	DECQ(mixedField("Count"))
	JNZ(LabelRef("sample"))
	collapseSigns()
	VZEROUPPER()
	RET()
}

// expandSigns makes a 16-bit mask of every bit, two units a vector.
func expandSigns() {
	bits, mask := avx2.regs[0], avx2.regs[1]
	MOVQ(mixedField("Bits"), mixedBit)
	VMOVDQU(at(mixedConst, 32*mixedBits), bits)
	for p := range mixedUnits / 2 {
		VPBROADCASTW(at(mixedBit, 2*p), mask)
		VPAND(bits, mask, mask)
		VPCMPEQW(bits, mask, mask)
		VMOVDQU(mask, at(mixedMasks, 32*p))
	}
}

func collapseSigns() {
	MOVQ(mixedField("Bits"), mixedValues)
	for p := range mixedUnits / 2 {
		VMOVDQU(at(mixedMasks, 32*p), reg.X0)
		VPACKSSWB(at(mixedMasks, 32*p+16), reg.X0, reg.X0)
		VPMOVMSKB(reg.X0, reg.EAX)
		MOVW(reg.AX, at(mixedValues, 2*p))
	}
}

// arguments computes those of 8 units, from unit on, in the first 8 registers:
// bias, inputs or taps, then states. The weights of a half of the units follow
// each other in that order, 8 vectors each.
func (m mixed) arguments(id string, unit int) {
	x := avx2.regs[8]
	for i := range 8 {
		VMOVUPS(at(mixedWeights, 32*i), avx2.regs[i])
	}
	ADDQ(U32(256), mixedWeights)
	MOVQ(mixedFirst, mixedValues)
	MOVQ(mixedField("Inputs"), mixedLeft)
	Label("inputs_" + id)
	VMOVUPS(at(mixedValues, 0), x)
	for i := range 8 {
		VFMADD231PS(at(mixedWeights, 32*i), x, avx2.regs[i])
	}
	ADDQ(U32(256), mixedWeights)
	ADDQ(Imm(32), mixedValues)
	DECQ(mixedLeft)
	JNZ(LabelRef("inputs_" + id))
	if !m.recurrent {
		for i := range 8 {
			VMOVUPS(at(mixedState, mixedH+32*(unit+i)), x)
			VFMADD231PS(at(mixedWeights, 32*i), x, avx2.regs[i])
		}
		ADDQ(U32(256), mixedWeights)
		return
	}
	for k := range mixedUnits {
		VMOVUPS(at(mixedState, mixedH+32*k), x)
		for i := range 8 {
			VFMADD231PS(at(mixedWeights, 256*k+32*i), x, avx2.regs[i])
		}
	}
	ADDQ(U32(256*mixedUnits), mixedWeights)
}

// take updates the states of 8 units with their arguments, and where the sample
// is counted all else.
func (m mixed) take(id string, unit int) {
	MOVQ(mixedField("Mask"), mixedBit)
	TESTQ(mixedNumber, mixedBit)
	JNZ(LabelRef("quiet_" + id))
	m.signs(unit, true)
	m.extremes(unit, mixedWin, VMAXPS)
	m.extremes(unit, mixedLose, VMINPS)
	m.states(unit, true)
	JMP(LabelRef("taken_" + id))
	Label("quiet_" + id)
	m.signs(unit, false)
	m.states(unit, false)
	Label("taken_" + id)
}

// signs makes the masks of the positive arguments; counted ones it counts, and
// those that differ from before.
func (m mixed) signs(unit int, counted bool) {
	mask, changed, n := avx2.regs[8], avx2.regs[9], avx2.regs[10]
	for p := range 4 {
		pair := 32 * (unit/2 + p)
		packPair(avx2.regs[2*p], avx2.regs[2*p+1], mask)
		VPCMPGTW(mixedZero, mask, mask)
		if counted {
			VPXOR(at(mixedMasks, pair), mask, changed)
			countMask(mask, n, mixedPpv+pair)
			countMask(changed, n, mixedSc+pair)
		}
		VMOVDQU(mask, at(mixedMasks, pair))
	}
}

// packPair makes 16-bit numbers of two vectors, with signed saturation: first
// those of a, then of b.
func packPair(a, b, to reg.VecPhysical) {
	VPACKSSDW(b, a, to)
	VPERMQ(Imm(0xd8), to, to)
}

// countMask adds 1 to the counts whose mask is set; n is spoilt.
func countMask(mask, n reg.VecPhysical, offset int) {
	VMOVDQU(at(mixedState, offset), n)
	VPSUBW(mask, n, n)
	VMOVDQU(n, at(mixedState, offset))
}

// extremes counts the units whose argument is the group's largest, or smallest.
func (m mixed) extremes(unit, counts int, choose func(...Op)) {
	best, a, b, n := avx2.regs[8], avx2.regs[9], avx2.regs[10], avx2.regs[11]
	choose(avx2.regs[0], avx2.regs[1], best)
	choose(avx2.regs[2], avx2.regs[3], a)
	choose(avx2.regs[4], avx2.regs[5], b)
	choose(avx2.regs[6], avx2.regs[7], n)
	choose(best, a, best)
	choose(b, n, b)
	choose(best, b, best)
	for p := range 4 {
		VCMPPS(Imm(0), best, avx2.regs[2*p], a)
		VCMPPS(Imm(0), best, avx2.regs[2*p+1], b)
		packPair(a, b, a)
		countMask(a, n, counts+32*(unit/2+p))
	}
}

// states adds the activations.
func (m mixed) states(unit int, counted bool) {
	for i := range 8 {
		place, z := 32*(unit+i), avx2.regs[i]
		c, a, b, h := avx2.regs[8], avx2.regs[9], avx2.regs[10], avx2.regs[11]
		VMAXPS(mixedConstants[mixedLow], z, c)
		VMINPS(mixedConstants[mixedHigh], c, c)
		VADDPS(at(mixedState, mixedH+place), c, h)
		if m.cubic {
			VMULPS(mixedConstants[mixedFactor], c, a)
			VMULPS(c, c, b)
			VFMADD231PS(a, b, h)
		}
		VMOVUPS(h, at(mixedState, mixedH+place))
		if !counted {
			continue
		}
		VADDPS(at(mixedState, mixedSum+place), h, a)
		VMOVUPS(a, at(mixedState, mixedSum+place))
		VMOVUPS(at(mixedState, mixedSquare+place), b)
		VFMADD231PS(h, h, b)
		VMOVUPS(b, at(mixedState, mixedSquare+place))
		VMAXPS(at(mixedState, mixedMax+place), z, z) // z where it is larger, else the old one
		VMOVUPS(z, at(mixedState, mixedMax+place))
	}
}

func mixedOffsets() string {
	s := "\n// Offsets in MixedSteps.\nconst (\n"
	for i, f := range mixedFields {
		s += fmt.Sprintf("\toffsetMixed%s = %d\n", f, 8*i)
	}
	return s + ")\n"
}
