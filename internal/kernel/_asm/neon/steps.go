package main

import "fmt"

// shape is a tile of streams: how many vectors side by side, and how many rows
// (units) of accumulators are in the registers before temps.
type shape struct {
	name  string
	pairs int
	rows  int
	// single: one stream, its units in the lanes; rows counts vectors of
	// units, a value row is one number.
	single bool
}

// Further registers of steps and ring.
const (
	weights   = "R8"
	values    = "R9"  // next value row of Cur
	entry     = "R10" // rowTile; in ring: units to go
	count     = "R11"
	waiting   = "R12" // vectors at pending
	cur       = "R13" // Steps.Cur and so on
	next      = "R14"
	curState  = "R15"
	nextState = "R16"
	store     = "R17" // Steps.Pending: place of the next arguments
	spare     = "R19"
	samples   = "R20"
	t0        = "R21"
	t1        = "R22"
	t2        = "R23"
)

// inField are the fields of Steps that a kernel keeps in registers and writes
// back.
var inField = [][2]string{
	{"Cur", cur}, {"Next", next}, {"CurState", curState}, {"NextState", nextState},
	{"Pending", store}, {"Spare", spare}, {"Count", samples},
}

// lanes is how many streams a tile holds.
func (s shape) lanes() int {
	if s.single {
		return 1
	}
	return pairLanes * s.pairs
}

// acc is the accumulator of row r, vector p.
func (s shape) acc(r, p int) pair { return pairAt(vec(2 * (r*s.pairs + p))) }

func (f *file) loadFields() {
	f.op("MOVD", "a+0(FP), %s", args)
	for _, r := range append([][2]string{{"Consts", consts}, {"Sums", sums}, {"Flags", flags}}, inField...) {
		f.op("MOVD", "Steps_%s(%s), %s", r[0], args, r[1])
	}
}

func (f *file) storeFields() {
	for _, r := range inField {
		f.op("MOVD", "%s, Steps_%s(%s)", r[1], r[0], args)
	}
}

// steps advances a tile of streams by Count samples. For each row tile of each
// sample it computes the rows' tanh arguments over inputs and states; the
// arguments of the previous row tile are finished on the way, one vector every
// few products, so that the table look-ups run in parallel with the products.
func (f *file) steps(s shape) {
	f.function("steps"+s.name, "(a *Steps)", 8, fmt.Sprintf("advances %d streams by a.Count samples.", s.lanes()))
	f.loadFields()
	f.op("MOVD", "ZR, %s", waiting)
	f.label("step")
	f.copyInputs(s)
	f.op("MOVD", "Steps_Weights(%s), %s", args, weights)
	f.op("MOVD", "Steps_Tiles(%s), %s", args, entry)
	f.label("tile")
	if !s.single {
		f.op("MOVD", "rowTile_kits(%s), %s", entry, t0)
		f.op("CBNZ", "%s, interleaved", t0)
	}
	f.flush("Tile")
	f.label("interleaved")
	f.op("MOVD", "%s, %s", cur, values)
	f.op("MOVD", "rowTile_rows(%s), %s", entry, t0)
	f.bisect(t0, 1, s.rows, "rows")
	for m := 1; m <= s.rows; m++ {
		f.rowTile(s, m)
	}
	f.label("computed")
	// The arguments just stored are pending now; the other buffer is next.
	f.op("MOVD", "%s, %s", store, pending)
	f.swap(store, spare)
	f.op("MOVD", "rowTile_offset(%s), %s", entry, t0)
	f.op("ADD", "%s, %s, %s", t0, curState, old)
	f.op("ADD", "%s, %s, %s", t0, nextState, fresh)
	f.op("ADD", "%s<<2, %s, %s", t0, sums, acc) // Kinds is 4
	f.op("ADD", "$rowTile__size, %s", entry)
	f.op("MOVD", "rowTile_rows(%s), %s", entry, t0)
	f.op("CBNZ", "%s, tile", t0)
	f.swap(cur, next)
	f.swap(curState, nextState)
	f.op("SUBS", "$1, %s", samples)
	f.op("BNE", "step")
	f.flush("End")
	f.storeFields()
	f.op("RET", "")
}

func (f *file) swap(a, b string) {
	f.op("MOVD", "%s, %s", a, t1)
	f.op("MOVD", "%s, %s", b, a)
	f.op("MOVD", "%s, %s", t1, b)
}

// copyInputs puts the inputs the member sees at the readout of Cur.
func (f *file) copyInputs(s shape) {
	v := pairAt(temps)
	f.op("MOVD", "Steps_Inputs(%s), %s", args, t0)
	f.op("MOVD", "Steps_Select(%s), %s", args, t1)
	f.op("MOVD", "Steps_Selected(%s), %s", args, count)
	f.op("MOVD", "%s, %s", cur, values)
	f.label("input")
	f.op("MOVD.P", "8(%s), %s", t1, t2)
	f.op("ADD", "%s, %s", t0, t2)
	if s.single {
		f.op("MOVWU", "(%s), %s", t2, t2)
		f.op("MOVW.P", "%s, 4(%s)", t2, values)
	} else {
		for range s.pairs {
			f.op("FLDPQ.P", "%d(%s), %v", pairBytes, t2, v)
			f.op("FSTPQ.P", "%v, %d(%s)", v, pairBytes, values)
		}
	}
	f.op("SUBS", "$1, %s", count)
	f.op("BNE", "input")
	f.op("MOVD", "Steps_InputStep(%s), %s", args, t1)
	f.op("ADD", "%s, %s", t1, t0)
	f.op("MOVD", "%s, Steps_Inputs(%s)", t0, args)
}

// flush finishes whatever waits.
func (f *file) flush(id string) {
	f.op("CBZ", "%s, none%s", waiting, id)
	f.label("flush" + id)
	f.finish(id)
	f.op("SUBS", "$1, %s", waiting)
	f.op("BNE", "flush%s", id)
	f.label("none" + id)
}

// rowTile computes the tanh arguments of m units for all lanes, or of m
// vectors of units.
func (f *file) rowTile(s shape, m int) {
	id := fmt.Sprint(m)
	f.label("rows" + id)
	for r := range m {
		if s.single {
			f.op("FLDPQ.P", "%d(%s), %v", pairBytes, weights, s.acc(r, 0))
			continue
		}
		f.broadcast(s, vec(r*2*s.pairs))
	}
	if !s.single {
		f.op("CBZ", "%s, all%s", waiting, id)
		f.label("outer" + id)
		f.finish(id)
		f.op("MOVD", "rowTile_kits(%s), %s", entry, count)
		f.label("inner" + id)
		f.kit(s, m)
		f.op("SUBS", "$1, %s", count)
		f.op("BNE", "inner%s", id)
		f.op("SUBS", "$1, %s", waiting)
		f.op("BNE", "outer%s", id)
		f.op("MOVD", "rowTile_rest(%s), %s", entry, count)
		f.op("CBZ", "%s, done%s", count, id)
		f.op("JMP", "rest%s", id)
		f.label("all" + id)
	}
	f.op("MOVD", "Steps_Depth(%s), %s", args, count)
	f.label("rest" + id)
	f.kit(s, m)
	f.op("SUBS", "$1, %s", count)
	f.op("BNE", "rest%s", id)
	f.label("done" + id)
	for r := range m {
		for p := range s.pairs {
			f.op("FSTPQ", "%v, %d(%s)", s.acc(r, p), (r*s.pairs+p)*pairBytes, store)
		}
	}
	f.op("MOVD", "$%d, %s", m*s.pairs, waiting)
	f.op("JMP", "computed")
}

// broadcast fills the registers of one row, from first on, with the next
// weight.
func (f *file) broadcast(s shape, first vec) {
	f.op("VLD1R.P", "4(%s), [%s]", weights, first.s())
	for i := 1; i < 2*s.pairs; i++ {
		f.op("VMOV", "%s, %s", first.b(), (first + vec(i)).b())
	}
}

// kit adds one value row times its weights to the accumulators of m rows.
func (f *file) kit(s shape, m int) {
	if s.single {
		h := temps + 11
		f.op("FMOVS.P", "4(%s), %s", values, h.f())
		for r := range m {
			w := pairAt(temps + 4 + vec(2*(r%3)))
			f.op("FLDPQ", "%d(%s), %v", r*pairBytes, weights, w)
			f.fmla(s.acc(r, 0)[0], w[0], h, 0)
			f.fmla(s.acc(r, 0)[1], w[1], h, 0)
		}
		f.op("ADD", "$%d, %s", m*pairBytes, weights)
		return
	}
	for p := range s.pairs {
		f.op("FLDPQ.P", "%d(%s), %v", pairBytes, values, pairAt(temps+vec(2*p)))
	}
	w := temps + 4
	for r, left := 0, m; left > 0; w++ {
		n, load := 1, "FMOVS.P"
		switch {
		case left >= 4:
			n, load = 4, "FMOVQ.P"
		case left >= 2:
			n, load = 2, "FMOVD.P"
		}
		f.op(load, "%d(%s), %s", 4*n, weights, w.f())
		for i := range n {
			for p := range s.pairs {
				for k, a := range s.acc(r+i, p) {
					f.fmla(a, temps+vec(2*p+k), w, i)
				}
			}
		}
		r, left = r+n, left-n
	}
}
