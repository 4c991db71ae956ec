package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Kind mixed on AVX-512: a vector is two units of 8 members, a group of 8 units is
// 4 vectors. The counts of a group are bytes while a call runs: one vector for
// each kind, in the order in which packing leaves them.

// More places in kernel.mixedConsts.
const (
	mixedOnes = 128 // bytes of 1
	mixedTurn = 192 // where packing leaves each four bytes, and the way back
)

// General purpose registers of the pairs beside those of mixed.
var (
	pairCounts  = reg.R10
	pairBits    = reg.R11
	pairWeights = reg.RBX // those to come, or of the second group
	pairLeft    = reg.RDX // samples
)

// Mask registers: the signs of each group, what is new, what has changed.
var (
	pairSigns   = [2]reg.OpmaskPhysical{reg.K1, reg.K2}
	pairNew     = reg.K3
	pairChanged = reg.K4
)

// pairs are the registers of one group, and the constants.
type pairs struct {
	mixed
	z, sum, square     []reg.VecPhysical // 4 for each group
	next               []reg.VecPhysical // arguments of the next sample
	h                  []reg.VecPhysical // nil: in the state
	counts             []reg.VecPhysical // nil: in memory
	high, factor, ones reg.VecPhysical
	temps              []reg.VecPhysical
	inMemory           reg.GPPhysical
}

func (g *isa) pairs(m mixed) {
	g.function(m.name(), "(a *byte)", "advances a block of 8 members by a.Count samples.")
	Load(Param("a"), args)
	MOVQ(mixedField("Consts"), mixedConst)
	MOVQ(mixedField("State"), mixedState)
	MOVQ(mixedField("Bits"), pairBits)
	MOVQ(mixedField("Weights"), mixedWeights)
	if m.recurrent {
		g.pairsRecurrent(m)
	} else {
		g.pairsTaps(m)
	}
	VZEROUPPER()
	RET()
}

func (p *pairs) constants() {
	VBROADCASTSS(at(mixedConst, 32*mixedHigh), p.high)
	if p.cubic {
		VBROADCASTSS(at(mixedConst, 32*mixedFactor), p.factor)
	}
	VMOVDQU64(at(mixedConst, mixedOnes), p.ones)
}

// pairsTaps advances one group after the other, its states and sums in registers.
// The inputs of the next sample come before the counts of this one, which need
// other execution units.
func (g *isa) pairsTaps(m mixed) {
	r := g.regs
	p := pairs{mixed: m, z: r[0:4], next: r[4:8], h: r[8:12], sum: r[12:16], square: r[16:20], counts: r[20:24],
		high: r[24], factor: r[25], ones: r[26], temps: r[27:32]}
	p.constants()
	LEAQ(at(mixedState, mixedPpv), pairCounts)
	groups := reg.RAX
	MOVQ(U32(2), groups)
	Label("group")
	for j := range 4 {
		VMOVUPS(at(mixedState, mixedH+64*j), p.h[j])
		VMOVUPS(at(mixedState, mixedSum+64*j), p.sum[j])
		VMOVUPS(at(mixedState, mixedSquare+64*j), p.square[j])
		VPXORD(p.counts[j], p.counts[j], p.counts[j])
	}
	p.expand(0)
	MOVQ(mixedField("Values"), mixedValues)
	MOVQ(mixedField("Count"), pairLeft)
	MOVQ(mixedField("Number"), mixedNumber)
	p.inputs("first", p.z)
	Label("sample")
	for j := range 4 {
		VFMADD231PS(at(pairWeights, 64*j), p.h[j], p.z[j])
	}
	for j := range 4 {
		p.advance(p.z[j], p.h[j])
	}
	CMPQ(pairLeft, Imm(1))
	CMOVQEQ(mixedField("Values"), mixedValues) // the last sample has no next: any will do
	p.inputs("next", p.next)
	p.test("quiet")
	for j := range 4 {
		p.accumulate(j, p.h[j])
	}
	p.count(0)
	JMP(LabelRef("taken"))
	Label("quiet")
	p.signs(0)
	KMOVQ(pairNew, pairSigns[0])
	Label("taken")
	for j := range 4 {
		VMOVAPS(p.next[j], p.z[j])
	}
	INCQ(mixedNumber)
	DECQ(pairLeft)
	JNZ(LabelRef("sample"))
	for j := range 4 {
		VMOVUPS(p.h[j], at(mixedState, mixedH+64*j))
		VMOVUPS(p.sum[j], at(mixedState, mixedSum+64*j))
		VMOVUPS(p.square[j], at(mixedState, mixedSquare+64*j))
	}
	p.collapse(0)
	for kind, n := range p.counts {
		p.fold(n, 256*kind)
	}
	LEAQ(at(pairWeights, 256), mixedWeights)
	ADDQ(U32(256), mixedState)
	ADDQ(U32(128), pairCounts)
	ADDQ(Imm(8), pairBits)
	DECQ(groups)
	JNZ(LabelRef("group"))
}

// inputs computes a group's biases and inputs, and leaves pairWeights behind them.
func (p *pairs) inputs(id string, z []reg.VecPhysical) {
	for j := range 4 {
		VMOVUPS(at(mixedWeights, 64*j), z[j])
	}
	LEAQ(at(mixedWeights, 256), pairWeights)
	MOVQ(mixedField("Inputs"), mixedLeft)
	Label("inputs_" + id)
	VBROADCASTF32X8(at(mixedValues, 0), p.temps[0])
	for j := range 4 {
		VFMADD231PS(at(pairWeights, 64*j), p.temps[0], z[j])
	}
	ADDQ(U32(256), pairWeights)
	ADDQ(Imm(32), mixedValues)
	DECQ(mixedLeft)
	JNZ(LabelRef("inputs_" + id))
}

// pairsRecurrent advances both groups, which see each other. The states are in the
// state, from where a unit goes to both halves of a vector.
func (g *isa) pairsRecurrent(m mixed) {
	r := g.regs
	p := pairs{mixed: m, z: r[0:8], sum: r[8:16], square: r[16:24],
		high: r[24], factor: r[25], ones: r[26], temps: r[27:32]}
	p.constants()
	scratch := []reg.GPPhysical{reg.RDX, reg.RAX}
	MOVQ(mixedField("Signs"), scratch[0])
	MOVQ(mixedField("Held"), scratch[1])
	VPXORD(p.temps[0], p.temps[0], p.temps[0])
	for j := range 8 {
		VMOVUPS(at(mixedState, mixedSum+64*j), p.sum[j])
		VMOVUPS(at(mixedState, mixedSquare+64*j), p.square[j])
		VMOVDQU64(p.temps[0], at(scratch[j/4], 64*(j%4)))
	}
	p.expand(0)
	p.expand(1)
	MOVQ(mixedField("Values"), mixedValues)
	MOVQ(mixedField("Number"), mixedNumber)
	Label("sample")
	MOVQ(mixedField("Inputs"), mixedLeft)
	MOVQ(mixedLeft, pairWeights)
	SHLQ(Imm(8), pairWeights)
	ADDQ(mixedWeights, pairWeights) // 256 * Inputs further
	for j := range 4 {
		VMOVUPS(at(mixedWeights, 64*j), p.z[j])
		VMOVUPS(at(pairWeights, 256*(1+mixedUnits)+64*j), p.z[4+j])
	}
	Label("inputs")
	ADDQ(U32(256), mixedWeights)
	ADDQ(U32(256), pairWeights)
	VBROADCASTF32X8(at(mixedValues, 0), p.temps[0])
	for j := range 4 {
		VFMADD231PS(at(mixedWeights, 64*j), p.temps[0], p.z[j])
		VFMADD231PS(at(pairWeights, 256*(1+mixedUnits)+64*j), p.temps[0], p.z[4+j])
	}
	ADDQ(Imm(32), mixedValues)
	DECQ(mixedLeft)
	JNZ(LabelRef("inputs"))
	for k := range mixedUnits {
		x := p.temps[k%4]
		VBROADCASTF32X8(at(mixedState, mixedH+32*k), x)
		for j := range 4 {
			VFMADD231PS(at(mixedWeights, 256*(1+k)+64*j), x, p.z[j])
			VFMADD231PS(at(pairWeights, 256*(2+mixedUnits+k)+64*j), x, p.z[4+j])
		}
	}
	MOVQ(mixedField("Weights"), mixedWeights)
	p.test("quiet")
	for j := range 8 {
		h := p.temps[3]
		VMOVUPS(at(mixedState, mixedH+64*j), h)
		p.advance(p.z[j], h)
		VMOVUPS(h, at(mixedState, mixedH+64*j))
		p.accumulate(j, h)
	}
	for half := range 2 {
		p.counts = nil
		p.inMemory = scratch[half]
		p.count(half)
	}
	JMP(LabelRef("taken"))
	Label("quiet")
	for j := range 8 {
		h := p.temps[3]
		VMOVUPS(at(mixedState, mixedH+64*j), h)
		p.advance(p.z[j], h)
		VMOVUPS(h, at(mixedState, mixedH+64*j))
	}
	for half := range 2 {
		p.signs(half)
		KMOVQ(pairNew, pairSigns[half])
	}
	Label("taken")
	INCQ(mixedNumber)
	DECQ(mixedField("Count"))
	JNZ(LabelRef("sample"))
	for j := range 8 {
		VMOVUPS(p.sum[j], at(mixedState, mixedSum+64*j))
		VMOVUPS(p.square[j], at(mixedState, mixedSquare+64*j))
	}
	LEAQ(at(mixedState, mixedPpv), pairCounts)
	for half := range 2 {
		p.collapse(half)
		for kind := range 4 {
			VMOVDQU64(at(scratch[half], 64*kind), p.temps[3])
			p.fold(p.temps[3], 256*kind+128*half)
		}
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

// collapse writes them.
func (p *pairs) collapse(half int) {
	mask, t := pairSigns[half], p.temps[0]
	VPMOVM2B(mask, t)
	p.turn(t)
	VPMOVB2M(t, mask)
	KMOVQ(mask, at(pairBits, 8*half))
}

// turn puts bytes that packing has made into the order of the state, or back.
func (p *pairs) turn(v reg.VecPhysical) {
	VMOVDQU64(at(mixedConst, mixedTurn), p.temps[1])
	VPERMD(v, p.temps[1], v)
}

// fold adds a group's bytes to its counts.
func (p *pairs) fold(n reg.VecPhysical, offset int) {
	p.turn(n)
	for i, t := range p.temps[:2] {
		VEXTRACTI64X4(Imm(uint64(i)), n, t.AsY())
		VPMOVZXBW(t.AsY(), t)
		VPADDW(at(pairCounts, offset+64*i), t, t)
		VMOVDQU64(t, at(pairCounts, offset+64*i))
	}
}

// test jumps where the sample is not counted.
func (p *pairs) test(quiet string) {
	TESTQ(mixedNumber, mixedField("Mask"))
	JNZ(LabelRef(quiet))
}

// advance adds the activation of z to h.
func (p *pairs) advance(z, h reg.VecPhysical) {
	c, a := p.temps[0], p.temps[1]
	VRANGEPS(Imm(2), p.high, z, c) // the smaller magnitude, with the sign of z
	VADDPS(c, h, h)
	if p.cubic {
		VMULPS(p.factor, c, a)
		VMULPS(c, c, c)
		VFMADD231PS(a, c, h)
	}
}

// accumulate adds the new state h of vector j to the sums, and its argument to the
// largest.
func (p *pairs) accumulate(j int, h reg.VecPhysical) {
	VADDPS(h, p.sum[j], p.sum[j])
	VFMADD231PS(h, h, p.square[j])
	VMAXPS(at(mixedState, mixedMax+64*j), p.z[j], p.temps[2]) // z where it is larger, else the old one
	VMOVUPS(p.temps[2], at(mixedState, mixedMax+64*j))
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
	p.signs(half)
	KXORQ(pairNew, pairSigns[half], pairChanged)
	KMOVQ(pairNew, pairSigns[half])
	p.add(0, pairNew)
	p.add(1, pairChanged)
	p.extremes(2, half, VMAXPS, true)
	p.extremes(3, half, VMINPS, false)
}

// add counts the members of a mask.
func (p *pairs) add(kind int, mask reg.OpmaskPhysical) {
	if p.counts != nil {
		VPADDB(p.ones, p.counts[kind], mask, p.counts[kind])
		return
	}
	n := p.temps[3]
	VMOVDQU64(at(p.inMemory, 64*kind), n)
	VPADDB(p.ones, n, mask, n)
	VMOVDQU64(n, at(p.inMemory, 64*kind))
}

// extremes counts the units whose argument is the group's largest, or smallest:
// those without a difference to it.
func (p *pairs) extremes(kind, half int, choose func(...Op), largest bool) {
	z, best, a, b := p.z[4*half:4*half+4], p.temps[0], p.temps[1], p.temps[2]
	choose(z[0], z[1], best)
	choose(z[2], z[3], a)
	choose(best, a, best)
	VSHUFF64X2(Imm(0x4e), best, best, a)
	choose(best, a, best)
	less := func(z, to reg.VecPhysical) {
		if largest {
			VSUBPS(z, best, to)
		} else {
			VSUBPS(best, z, to)
		}
	}
	less(z[0], a)
	less(z[1], b)
	VPACKUSDW(b, a, a) // -0 becomes 0
	less(z[2], b)
	less(z[3], best)
	VPACKUSDW(best, b, b)
	VPACKSSWB(b, a, a)
	VPTESTNMB(a, a, pairNew)
	p.add(kind, pairNew)
}
