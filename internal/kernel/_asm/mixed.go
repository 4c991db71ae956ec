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

// Places in kernel.mixedConsts, bytes.
const (
	mixedLow    = 0
	mixedHigh   = 32
	mixedFactor = 64
	mixedTurn   = 96  // permutation of dwords from the order of packing to the order of the state
	mixedByte   = 128 // in the order of packing: the byte of a sign,
	mixedBit    = 160 // and its bit
	mixedNone   = 320 // counts of no samples
)

// General purpose registers of mixed.
var (
	mixedLeft    = reg.RCX
	mixedFirst   = reg.RDX // the sample's first value
	mixedWeights = reg.RSI
	mixedValues  = reg.R8
	mixedState   = reg.R9
	mixedCounts  = reg.R10
	mixedSamples = reg.R11 // to go
	mixedGroup   = reg.R12 // the group's weights
	mixedConst   = reg.R13
	mixedNumber  = reg.RBX // the sample's
	mixedBefore  = reg.R14 // counts of the samples before
	mixedHeld    = reg.R15 // arguments of a group
	mixedSpare   = reg.RAX
)

// Constants that stay in registers.
var (
	mixedLowest  = avx2.regs[12]
	mixedHighest = avx2.regs[13]
	mixedScale   = avx2.regs[14]
	mixedZero    = avx2.regs[15]
)

// mixed advances a block of 8 members of kind mixed: one member a lane, a vector
// is one unit. A group is 8 units.
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
	MOVQ(mixedField("Signs"), mixedCounts)
	MOVQ(mixedField("Weights"), mixedGroup)
	VMOVUPS(at(mixedConst, mixedLow), mixedLowest)
	VMOVUPS(at(mixedConst, mixedHigh), mixedHighest)
	VMOVUPS(at(mixedConst, mixedFactor), mixedScale)
	VPXOR(mixedZero, mixedZero, mixedZero)
	m.begin()
	if m.recurrent {
		m.recurrents()
	} else {
		m.taps(0)
		m.taps(1)
	}
	m.end()
	VZEROUPPER()
	RET()
}

// each does the body for every sample.
func each(id string, body func()) {
	MOVQ(mixedField("Values"), mixedFirst)
	MOVQ(mixedField("Number"), mixedNumber)
	MOVQ(mixedField("Count"), mixedSamples)
	LEAQ(at(mixedConst, mixedNone), mixedBefore)
	Label(id)
	MOVQ(mixedGroup, mixedWeights)
	body()
	MOVQ(mixedValues, mixedFirst)
	INCQ(mixedNumber)
	DECQ(mixedSamples)
	JNZ(LabelRef(id))
}

// taps advances a group.
func (m mixed) taps(group int) {
	id := fmt.Sprint(group)
	each("sample_"+id, func() {
		m.inputs(id)
		for i := range 8 {
			x := avx2.regs[8+i%4]
			VMOVUPS(at(mixedState, mixedH+256*group+32*i), x)
			VFMADD231PS(at(mixedWeights, 32*i), x, avx2.regs[i])
		}
		m.take(group)
		m.taken()
	})
	LEAQ(at(mixedWeights, 256), mixedGroup)
}

// recurrents advances both groups, which see each other.
func (m mixed) recurrents() {
	MOVQ(mixedField("Held"), mixedHeld)
	each("sample", func() {
		m.arguments("0")
		for i := range 8 { // all arguments come of the states before the sample
			VMOVUPS(reg.VecPhysical(avx2.regs[i]), at(mixedHeld, 32*i))
		}
		m.arguments("1")
		m.take(1)
		for i := range 8 {
			VMOVUPS(at(mixedHeld, 32*i), avx2.regs[i])
		}
		m.take(0)
		m.taken()
	})
}

// arguments computes the arguments of a group of recurrent units in the first 8 registers.
func (m mixed) arguments(id string) {
	m.inputs(id)
	x := avx2.regs[8]
	for k := range mixedUnits {
		VMOVUPS(at(mixedState, mixedH+32*k), x)
		for i := range 8 {
			VFMADD231PS(at(mixedWeights, 256*k+32*i), x, avx2.regs[i])
		}
	}
	ADDQ(U32(256*mixedUnits), mixedWeights)
}

// inputs computes a group's biases and inputs or taps. The weights of a group
// follow each other in this order, then the weights of states, 8 vectors each.
func (m mixed) inputs(id string) {
	x, left := avx2.regs[8], mixedLeft
	for i := range 8 {
		VMOVUPS(at(mixedWeights, 32*i), avx2.regs[i])
	}
	ADDQ(U32(256), mixedWeights)
	MOVQ(mixedFirst, mixedValues)
	MOVQ(mixedField("Inputs"), left)
	Label("inputs_" + id)
	VMOVUPS(at(mixedValues, 0), x)
	for i := range 8 {
		VFMADD231PS(at(mixedWeights, 32*i), x, avx2.regs[i])
	}
	ADDQ(U32(256), mixedWeights)
	ADDQ(Imm(32), mixedValues)
	DECQ(left)
	JNZ(LabelRef("inputs_" + id))
}

// take updates the states of a group with its arguments and, if the sample is
// counted, sums and counts.
func (m mixed) take(group int) {
	id := fmt.Sprint(group)
	TESTQ(mixedNumber, mixedField("Mask"))
	JNZ(LabelRef("quiet_" + id))
	m.extremes(group, 2, VMAXPS)
	m.signs(group, true)
	m.extremes(group, 3, VMINPS)
	m.states(group, true)
	JMP(LabelRef("taken_" + id))
	Label("quiet_" + id)
	m.signs(group, false)
	m.states(group, false)
	Label("taken_" + id)
}

// taken ends a sample. After a counted sample, the counts so far are in MixedSteps.Signs.
func (m mixed) taken() {
	TESTQ(mixedNumber, mixedField("Mask"))
	CMOVQEQ(mixedCounts, mixedBefore)
}

// states adds the activations, two units in parallel: equal instructions in sequence
// go to different execution units, which keeps all units busy.
func (m mixed) states(group int, counted bool) {
	for i := 0; i < 8; i += 2 {
		z, c, a := avx2.regs[i:i+2], avx2.regs[8:10], avx2.regs[10:12]
		h := z // after the largest argument has been kept
		two := func(write func(k, place int)) {
			for k := range 2 {
				write(k, 256*group+32*(i+k))
			}
		}
		// As integers, positive numbers have their order, and negative numbers are
		// below; without a sign they are above, in the opposite order. All four
		// execution units compare integers, two of them floating-point numbers.
		two(func(k, _ int) { VPMINSD(mixedHighest, z[k], c[k]) })
		two(func(k, _ int) { VPMINUD(mixedLowest, c[k], c[k]) })
		if counted {
			two(func(k, place int) { VMAXPS(at(mixedState, mixedMax+place), z[k], z[k]) }) // z if z is larger, else the old value
			two(func(k, place int) { VMOVUPS(z[k], at(mixedState, mixedMax+place)) })
		}
		two(func(k, place int) { VADDPS(at(mixedState, mixedH+place), c[k], h[k]) })
		if m.cubic {
			two(func(k, _ int) { VMULPS(mixedScale, c[k], a[k]) })
			two(func(k, _ int) { VMULPS(c[k], c[k], c[k]) })
			two(func(k, _ int) { VFMADD231PS(a[k], c[k], h[k]) })
		}
		two(func(k, place int) { VMOVUPS(h[k], at(mixedState, mixedH+place)) })
		if !counted {
			continue
		}
		two(func(k, place int) { VADDPS(at(mixedState, mixedSum+place), h[k], a[k]) })
		two(func(k, place int) { VMOVUPS(at(mixedState, mixedSquare+place), c[k]) })
		two(func(k, place int) { VMOVUPS(a[k], at(mixedState, mixedSum+place)) })
		two(func(k, _ int) { VFMADD231PS(h[k], h[k], c[k]) })
		two(func(k, place int) { VMOVUPS(c[k], at(mixedState, mixedSquare+place)) })
	}
}

func mixedOffsets() string {
	s := "\n// Offsets in MixedSteps.\nconst (\n"
	for i, f := range mixedFields {
		s += fmt.Sprintf("\toffsetMixed%s = %d\n", f, 8*i)
	}
	return s + ")\n"
}
