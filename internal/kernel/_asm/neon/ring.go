package main

import (
	"fmt"
	"math/bits"
)

// ring advances a tile of streams by Count samples if each unit sees only the
// previous unit. Weights are, per unit, the bias, the inputs' weights and the
// recurrent weight. States stay in place: registers keep each unit's old state
// for the next unit.
func (f *file) ring(s shape) {
	f.function("ring"+s.name, "(a *Steps)", 8, fmt.Sprintf("advances %d streams of a ring by a.Count samples.", s.lanes()))
	rowBytes := s.pairs * pairBytes
	n := 2 * s.pairs // registers of a value row
	previous, z, x, w := vec(0), vec(n), vec(2*n), vec(3*n)
	rows := func(op, format string, first vec, place string) {
		for p := range s.pairs {
			f.op(op, format, fmt.Sprintf("%d(%s)", p*pairBytes, place), pairAt(first+vec(2*p)))
		}
	}
	products := func(from vec) {
		for i := range vec(n) {
			f.op("VFMLA", "%s, %s, %s", w.s(), (from + i).s(), (z + i).s())
		}
	}
	f.loadFields()
	f.label("step")
	f.copyInputs(s)
	f.op("MOVD", "Steps_Weights(%s), %s", args, weights)
	f.op("MOVD", "Steps_Units(%s), %s", args, entry)
	f.op("MOVD", "%s, %s", curState, old)
	f.op("MOVD", "%s, %s", curState, fresh)
	f.op("MOVD", "%s, %s", sums, acc)
	f.op("ADD", "%s<<%d, %s, %s", entry, bits.TrailingZeros(uint(rowBytes)), curState, t0)
	f.op("SUB", "$%d, %s", rowBytes, t0)
	rows("FLDPQ", "%v, %v", previous, t0)
	f.label("unit")
	f.broadcast(s, z)
	f.op("MOVD", "%s, %s", cur, values)
	f.op("MOVD", "Steps_Selected(%s), %s", args, count)
	f.label("product")
	f.op("VLD1R.P", "4(%s), [%s]", weights, w.s())
	rows("FLDPQ", "%v, %v", x, values)
	f.op("ADD", "$%d, %s", rowBytes, values)
	products(x)
	f.op("SUBS", "$1, %s", count)
	f.op("BNE", "product")
	f.op("VLD1R.P", "4(%s), [%s]", weights, w.s())
	products(previous)
	rows("FLDPQ", "%v, %v", previous, old)
	rows("FSTPQ", "%[2]v, %[1]v", z, store)
	f.op("MOVD", "%s, %s", store, pending)
	for p := range s.pairs {
		f.finish(fmt.Sprint(p))
	}
	f.op("SUBS", "$1, %s", entry)
	f.op("BNE", "unit")
	f.op("SUBS", "$1, %s", samples)
	f.op("BNE", "step")
	f.storeFields()
	f.op("RET", "")
}
