package main

import "fmt"

// Registers of finish, in addition to the vector registers from 20 on.
const (
	args    = "R0" // the Steps
	consts  = "R1" // kernel.Consts
	sums    = "R2" // Steps.Sums: 0 if none
	flags   = "R3" // Steps.Flags
	pending = "R4" // next vector of tanh arguments to finish
	old     = "R5" // states before the step,
	fresh   = "R6" // and after the step
	acc     = "R7" // accumulators
	temps   = vec(20)
)

// Places in kernel.Consts, 64 bytes each.
const (
	constSaturation = 1
	constShift      = 2
	constEdge       = 3
	constOne        = 4
	constSign       = 5
	constTable      = 7 // six, by power
	constBytes      = 13
)

// constant loads constant i, the same in all lanes.
func (f *file) constant(v vec, i int) { f.op("FMOVQ", "%d(%s), %s", 64*i, consts, v.f()) }

// finish turns the next vector of tanh arguments into states and adds them to
// the accumulators: canonical arithmetic, see internal/canon. finish is emitted
// in several places; labels carry id.
func (f *file) finish(id string) {
	x, tanh, table := f.tanh()
	h, gain, keep := pair{table[2], table[3]}, temps+2, temps+3
	f.op("FLDPQ.P", "%d(%s), %v", pairBytes, old, h)
	f.op("FMOVS", "Steps_Gain(%s), %s", args, gain.f())
	f.op("FMOVS", "Steps_Keep(%s), %s", args, keep.f())
	for i := range h {
		f.fmul(h[i], h[i], keep, 0)
	}
	for i := range h {
		f.fmla(h[i], tanh[i], gain, 0)
	}
	f.op("FSTPQ.P", "%v, %d(%s)", h, pairBytes, fresh)
	f.op("CBZ", "%s, finished%s", sums, id)
	f.accumulate(x, tanh, h, pair{table[0], table[1]}, pairAt(temps+2), id)
	f.label("finished" + id)
	f.op("ADD", "$%d, %s", pairBytes, pending)
}

// tanh computes the canonical tanh of the vector at pending and returns the
// registers of arguments and results, and the table's registers, free for
// reuse. Register pair temps+2 is free, too.
func (f *file) tanh() (x, result pair, table [4]vec) {
	dist, index, r, c := pairAt(temps), pairAt(temps+2), pairAt(temps+4), pairAt(temps+6)
	for i := range table {
		table[i] = temps + 8 + vec(i)
	}
	limit, shift, edge, digit := table[0], table[1], table[2], table[3]
	f.op("FLDPQ", "(%s), %v", pending, r)
	f.constant(limit, constSaturation)
	f.constant(shift, constShift)
	f.constant(edge, constEdge)
	f.op("VMOVI", "$0x3c, %s", digit.b())
	each := func(do func(i int)) { do(0); do(1) }
	each(func(i int) { f.fabs(dist[i], r[i]) })
	each(func(i int) { f.fmin(dist[i], dist[i], limit) }) // NaN stays
	each(func(i int) { f.fadd(index[i], dist[i], shift) })
	each(func(i int) { f.op("VAND", "%s, %s, %s", edge.b(), index[i].b(), c[i].b()) })
	each(func(i int) { f.fsub(c[i], c[i], shift) })
	each(func(i int) { f.fsub(dist[i], dist[i], c[i]) })
	// The interval is bits 21 to 24. The table look-up wants the number of
	// each byte: four times the interval, in all four bytes of the lane, plus
	// 0, 1, 2, 3.
	f.constant(limit, constBytes)
	each(func(i int) { f.op("VUSHR", "$19, %s, %s", index[i].s(), index[i].s()) })
	each(func(i int) { f.op("VSLI", "$8, %s, %s", index[i].s(), index[i].s()) })
	each(func(i int) { f.op("VSLI", "$16, %s, %s", index[i].s(), index[i].s()) })
	each(func(i int) { f.op("VAND", "%s, %s, %s", digit.b(), index[i].b(), index[i].b()) })
	each(func(i int) { f.op("VORR", "%s, %s, %s", limit.b(), index[i].b(), index[i].b()) })
	f.coefficients(5, table, index, r)
	for k := 4; k >= 0; k-- {
		f.coefficients(k, table, index, c)
		each(func(i int) { f.op("VFMLA", "%s, %s, %s", r[i].s(), dist[i].s(), c[i].s()) })
		r, c = c, r
	}
	one, sign := table[0], table[1]
	f.op("FLDPQ", "(%s), %v", pending, c)
	f.constant(one, constOne)
	f.constant(sign, constSign)
	each(func(i int) { f.fmin(r[i], r[i], one) })
	each(func(i int) { f.op("VBIT", "%s, %s, %s", sign.b(), c[i].b(), r[i].b()) })
	return c, r, table
}

// coefficients fetches each lane's coefficient of power k.
func (f *file) coefficients(k int, table [4]vec, index, dst pair) {
	for i := 0; i < 4; i += 2 {
		f.op("FLDPQ", "%d(%s), %v", 64*(constTable+k)+16*i, consts, pairAt(table[i]))
	}
	for i := range dst {
		f.op("VTBL", "%s, [%s, %s, %s, %s], %s", index[i].b(), table[0].b(), table[1].b(), table[2].b(), table[3].b(), dst[i].b())
	}
}

// accumulate adds arguments x, their tanh and the states h to the
// accumulators; t and mask are free registers.
func (f *file) accumulate(x, tanh, h, t, mask pair, id string) {
	for kind, k := range []struct {
		flag string
		add  func(i int)
	}{
		{"Sum", func(i int) { f.fadd(t[i], t[i], h[i]) }},
		{"Positive", func(i int) {
			f.fcmgtZero(mask[i], x[i])
			f.op("VSUB", "%s, %s, %s", mask[i].s(), t[i].s(), t[i].s()) // a set mask is -1
		}},
		{"Max", func(i int) { // not fmax: of two zeros the first to come stays
			f.fcmgt(mask[i], tanh[i], t[i])
			f.op("VBIT", "%s, %s, %s", mask[i].b(), tanh[i].b(), t[i].b())
		}},
		{"Square", func(i int) { f.op("VFMLA", "%s, %s, %s", h[i].s(), h[i].s(), t[i].s()) }},
	} {
		next := fmt.Sprintf("no%s%s", k.flag, id)
		place := fmt.Sprintf("%d(%s)", kind*pairBytes, acc)
		f.op("TST", "$const_%s, %s", k.flag, flags)
		f.op("BEQ", "%s", next)
		f.op("FLDPQ", "%s, %v", place, t)
		k.add(0)
		k.add(1)
		f.op("FSTPQ", "%v, %s", t, place)
		f.label(next)
	}
	f.op("ADD", "$(%d*const_Kinds), %s", pairBytes, acc)
}
