package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Kind mixed on AVX-512: a vector is two units of 8 members, a group of 8 units is
// 4 vectors. During a call the counts of a group are bytes: one vector for each
// kind, in the order of packing, as are the signs, which are a mask. A core has
// few execution units for comparisons that make masks: an argument is compared
// with the largest by a difference and packed, four vectors to one mask.

// More places in kernel.mixedConsts.
const (
	mixedOnes = 192 // bytes of 1
	pairTurn  = 256 // place of each four bytes after packing, and the way back
	pairFold  = 832 // the same for bytes that unpacking makes into words
)

// General purpose registers of the pairs in addition to mixed.
var (
	pairCounts  = reg.R10
	pairBits    = reg.R11
	pairWeights = reg.RBX // the next weights, or the second group's
	pairLeft    = reg.RDX // samples
	pairNumber  = reg.R12 // of the sample
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
	counts             []reg.VecPhysical // by kind; nil: in memory
	bytes              [2]reg.Register   // there, by group
	high, factor, ones reg.VecPhysical
	temps              []reg.VecPhysical // 5
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
	VBROADCASTSS(at(mixedConst, mixedHigh), p.high)
	if p.cubic {
		VBROADCASTSS(at(mixedConst, mixedFactor), p.factor)
	}
	VMOVDQU64(at(mixedConst, mixedOnes), p.ones)
}

// pairsTaps advances one group after another, its states and sums in registers.
// The inputs of the next sample precede the counts of this sample, which need
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
	MOVQ(mixedField("Number"), pairNumber)
	p.inputs("first", p.z)
	Label("sample")
	for j := range 4 {
		VFMADD231PS(at(pairWeights, 64*j), p.h[j], p.z[j])
	}
	for j := range 4 {
		p.advance(p.z[j], p.h[j])
	}
	CMPQ(pairLeft, Imm(1))
	JEQ(LabelRef("last"))
	p.inputs("next", p.next)
	Label("last")
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
	INCQ(pairNumber)
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

// inputs computes a group's biases and inputs, and leaves pairWeights after them.
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
// state, from where a unit goes to both halves of a vector. A sample is counted
// between the products of the next sample.
func (g *isa) pairsRecurrent(m mixed) {
	r := g.regs
	p := pairs{mixed: m, z: r[0:8], next: r[8:16], sum: r[16:24],
		bytes: [2]reg.Register{reg.RDX, reg.RAX}, high: r[24], factor: r[25], ones: r[26], temps: r[27:32]}
	p.constants()
	MOVQ(mixedField("Signs"), p.bytes[0])
	MOVQ(mixedField("Held"), p.bytes[1])
	VPXORD(p.temps[0], p.temps[0], p.temps[0])
	for j := range 8 {
		VMOVUPS(at(mixedState, mixedSum+64*j), p.sum[j])
		VMOVDQU64(p.temps[0], at(p.bytes[j/4], 64*(j%4)))
	}
	p.expand(0)
	p.expand(1)
	MOVQ(mixedField("Values"), mixedValues)
	MOVQ(mixedField("Number"), pairNumber)
	JMP(LabelRef("first"))
	Label("sample")
	for j := range 8 {
		h := p.temps[3]
		VMOVUPS(at(mixedState, mixedH+64*j), h)
		p.advance(p.z[j], h)
		VMOVUPS(h, at(mixedState, mixedH+64*j))
	}
	DECQ(mixedField("Count"))
	JZ(LabelRef("last"))
	p.test("quiet")
	p.products("next", p.counting())
	INCQ(pairNumber)
	JMP(LabelRef("sample"))
	Label("quiet")
	p.quiet()
	INCQ(pairNumber)
	Label("first")
	p.products("first", nil)
	JMP(LabelRef("sample"))
	Label("last")
	p.test("last_quiet")
	for _, part := range p.counting() {
		part()
	}
	JMP(LabelRef("end"))
	Label("last_quiet")
	p.quiet()
	Label("end")
	for j := range 8 {
		VMOVUPS(p.sum[j], at(mixedState, mixedSum+64*j))
	}
	LEAQ(at(mixedState, mixedPpv), pairCounts)
	for half := range 2 {
		p.collapse(half)
		for kind := range 4 {
			VMOVDQU64(at(p.bytes[half], 64*kind), p.temps[3])
			p.fold(p.temps[3], 256*kind+128*half)
		}
	}
}

// products computes the next arguments of all units, and does the parts between
// the products.
func (p *pairs) products(id string, parts []func()) {
	const second = 256 * (1 + mixedUnits) // from 256*Inputs further on, the second group's
	MOVQ(mixedField("Weights"), mixedWeights)
	MOVQ(mixedField("Inputs"), mixedLeft)
	MOVQ(mixedLeft, pairWeights)
	SHLQ(Imm(8), pairWeights)
	ADDQ(mixedWeights, pairWeights)
	for j := range 4 {
		VMOVUPS(at(mixedWeights, 64*j), p.next[j])
		VMOVUPS(at(pairWeights, second+64*j), p.next[4+j])
	}
	x := p.temps[4]
	Label("inputs_" + id)
	ADDQ(U32(256), mixedWeights)
	ADDQ(U32(256), pairWeights)
	VBROADCASTF32X8(at(mixedValues, 0), x)
	for j := range 4 {
		VFMADD231PS(at(mixedWeights, 64*j), x, p.next[j])
		VFMADD231PS(at(pairWeights, second+64*j), x, p.next[4+j])
	}
	ADDQ(Imm(32), mixedValues)
	DECQ(mixedLeft)
	JNZ(LabelRef("inputs_" + id))
	for k := range mixedUnits {
		VBROADCASTF32X8(at(mixedState, mixedH+32*k), x)
		for j := range 4 {
			VFMADD231PS(at(mixedWeights, 256*(1+k)+64*j), x, p.next[j])
			VFMADD231PS(at(pairWeights, second+256*(1+k)+64*j), x, p.next[4+j])
		}
		if k < len(parts) {
			parts[k]()
		}
	}
	for j := range 8 {
		VMOVAPS(p.next[j], p.z[j])
	}
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
	if p.square != nil {
		VFMADD231PS(h, h, p.square[j])
	} else {
		VMOVUPS(at(mixedState, mixedSquare+64*j), p.temps[1])
		VFMADD231PS(h, h, p.temps[1])
		VMOVUPS(p.temps[1], at(mixedState, mixedSquare+64*j))
	}
	VMAXPS(at(mixedState, mixedMax+64*j), p.z[j], p.temps[2]) // z if z is larger, else the old value
	VMOVUPS(p.temps[2], at(mixedState, mixedMax+64*j))
}
