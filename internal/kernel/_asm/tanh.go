package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Registers of finish, all general purpose.
var (
	consts   = reg.RBX // kernel.Consts
	sums     = reg.RAX // accumulators of the tile, or 0
	oldState = reg.R10 // states before the pending step, unit 0
	newState = reg.R11 // states after the step
	offset   = reg.R12 // of the pending vector in both
)

// temps are the vector registers of finish, the place of the tanh arguments (a
// register or memory), and the constants in registers.
type temps struct {
	x                Op
	a, y, t, k, m, l reg.VecPhysical
	pins             map[int]reg.VecPhysical
	offset           reg.Register // of the pending vector; nil: in offset
	disp             int          // in addition
}

func (r temps) where() reg.Register {
	if r.offset == nil {
		return offset
	}
	return r.offset
}

// tempCount is how many registers temps take.
func (g *isa) tempCount() int {
	if g.masks {
		return 4
	}
	return 6 // two more to look up a table of two registers
}

// temps takes registers from first on. Registers of kit may be among them:
// between two kits they hold nothing.
func (g *isa) temps(first int) temps {
	r := g.regs[first:]
	t := temps{a: r[0], y: r[1], t: r[2], k: r[3]}
	if !g.masks {
		t.m, t.l = r[4], r[5]
	}
	return t
}

// pinned lists constants by the saving of a register for each.
var pinned = []int{constShift, constSign, constSaturation, constOne, constEdge,
	constTable + 5, constTable + 4, constTable + 3, constTable + 2, constTable + 1, constTable}

// temps are the registers after the accumulators, and as many constants as
// registers are left. pin loads the constants.
func (s shape) temps() temps {
	first := s.rows * s.vectors
	if s.single { // nothing else is going on
		return s.isa.temps(0)
	}
	r := s.isa.temps(first)
	r.pins = map[int]reg.VecPhysical{}
	first += max(s.tempCount(), s.vectors+1)
	pinned := pinned
	if s.woven {
		first, pinned = s.firstWoven()+3*s.vectors, wovenPins
	}
	for i, c := range pinned {
		if first+i < len(s.regs) {
			r.pins[c] = s.regs[first+i]
		}
	}
	return r
}

func (s shape) pin() {
	r := s.temps()
	for _, c := range pinned {
		if v, ok := r.pins[c]; ok {
			VMOVUPS(vector(consts, c), v)
		}
	}
}

// constant is the operand of constant i.
func (r temps) constant(i int) Op {
	if v, ok := r.pins[i]; ok {
		return v
	}
	return vector(consts, i)
}

// register returns constant i in a register, tmp if the constant has no register.
func (r temps) register(i int, tmp reg.VecPhysical) reg.VecPhysical {
	if v, ok := r.pins[i]; ok {
		return v
	}
	VMOVUPS(vector(consts, i), tmp)
	return tmp
}

// finish turns the tanh arguments in x into states and adds them to the
// accumulators: canonical arithmetic, see internal/canon. finish is emitted in
// several places; labels carry id.
func (g *isa) finish(r temps, id string) {
	g.tanh(r)
	g.update(r, id)
}

// update takes arguments in x and their tanh in a.
func (g *isa) update(r temps, id string) {
	VMOVUPS(scaled(oldState, r.where(), 1, r.disp), r.k)
	TESTB(U8(flagKeep), field("Flags"))
	JZ(LabelRef("whole" + id))
	g.mulScalar(field("Keep"), r.k, r.t)
	Label("whole" + id)
	g.fmaScalar(field("Gain"), r.a, r.k, r.t)
	VMOVUPS(r.k, scaled(newState, r.where(), 1, r.disp))
	TESTQ(sums, sums)
	JZ(LabelRef("finished" + id))
	g.accumulate(r, id)
	Label("finished" + id)
}

// tanh leaves the canonical tanh of x in a.
func (g *isa) tanh(r temps) {
	if sign, ok := r.pins[constSign]; ok {
		VANDNPS(r.x, sign, r.a)
	} else {
		VMOVUPS(r.x, r.a)
		VANDPS(vector(consts, constAbs), r.a, r.a)
	}
	VMINPS(r.a, r.register(constSaturation, r.k), r.a) // in this order NaN stays
	VADDPS(r.constant(constShift), r.a, r.y)
	VANDPS(r.constant(constEdge), r.y, r.t)
	VSUBPS(r.constant(constShift), r.t, r.t)
	VSUBPS(r.t, r.a, r.t)
	if !g.masks {
		VPSLLD(U8(7), r.y, r.m) // bit 3 of the interval becomes the sign
	}
	VPSRLD(U8(21), r.y, r.y)
	g.coefficient(5, r, r.a)
	for k := 4; k >= 0; k-- {
		g.coefficient(k, r, r.k)
		VFMADD213PS(r.k, r.t, r.a)
	}
	VMINPS(r.a, r.register(constOne, r.k), r.a)
	if g.masks {
		// a | x&sign, whichever of x and sign may be memory
		VPTERNLOGD(U8(0xf8), r.x, r.register(constSign, r.t), r.a)
		return
	}
	VMOVUPS(r.x, r.t)
	VANDPS(r.constant(constSign), r.t, r.t)
	VORPS(r.t, r.a, r.a)
}

// coefficient fetches each lane's coefficient of power k.
func (g *isa) coefficient(k int, r temps, dst reg.VecPhysical) {
	VPERMPS(r.constant(constTable+k), r.y, dst)
	if g.masks {
		return
	}
	high := vector(consts, constTable+k)
	high.Disp += 32
	VPERMPS(high, r.y, r.l)
	VBLENDVPS(r.m, r.l, dst, dst)
}

// accumulate adds argument x, tanh a and state k to the sums of the pending
// vector, which are four consecutive vectors at four times its offset.
func (g *isa) accumulate(r temps, id string) {
	each := func(flag uint64, kind int, add func(place Mem)) {
		next := LabelRef("no" + string(rune('0'+kind)) + id)
		TESTB(U8(flag), field("Flags"))
		JZ(next)
		place := scaled(sums, r.where(), 4, kind*g.bytes+4*r.disp)
		add(place)
		VMOVUPS(r.t, place)
		Label(string(next))
	}
	each(flagSum, 0, func(p Mem) { VADDPS(p, r.k, r.t) })
	each(flagPositive, 1, func(p Mem) {
		const less = 0x11
		VMOVUPS(p, r.t)
		VXORPS(r.y, r.y, r.y)
		if g.masks {
			VCMPPS(U8(less), r.x, r.y, reg.K1)
			VPADDD(vector(consts, constIntOne), r.t, reg.K1, r.t)
			return
		}
		VCMPPS(U8(less), r.x, r.y, r.y)
		VPSUBD(r.y, r.t, r.t)
	})
	each(flagMax, 2, func(p Mem) { VMAXPS(p, r.a, r.t) })
	each(flagSquare, 3, func(p Mem) {
		VMOVUPS(p, r.t)
		VFMADD231PS(r.k, r.k, r.t)
	})
}

func (g *isa) mulScalar(scalar Mem, v, tmp reg.VecPhysical) {
	if g.masks {
		VMULPS_BCST(scalar, v, v)
		return
	}
	VBROADCASTSS(scalar, tmp)
	VMULPS(tmp, v, v)
}

// fmaScalar adds scalar*a to v.
func (g *isa) fmaScalar(scalar Mem, a, v, tmp reg.VecPhysical) {
	if g.masks {
		VFMADD231PS_BCST(scalar, a, v)
		return
	}
	VBROADCASTSS(scalar, tmp)
	VFMADD231PS(tmp, a, v)
}
