package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Further general purpose registers of steps.
var (
	weights = reg.RSI
	values  = reg.R8  // next value row of Cur
	entry   = reg.R9  // kernel.rowTile
	pending = reg.R13 // next vector of tanh arguments to finish
	waiting = reg.RCX // number of pending vectors; woven: number of units
	count   = reg.RDX
)

// steps advances a tile of streams by Count samples. For each row tile of each
// sample it computes the rows' tanh arguments over inputs and states; the
// arguments of the previous row tile are finished on the way, one vector every
// few products, so that the table look-ups run in parallel with the FMAs.
func (s shape) steps() {
	if s.staged() {
		s.stagedSteps()
		return
	}
	s.function("steps"+s.name, "(a *byte)", fmt.Sprintf("advances %d streams by a.Count samples.", s.lanes()))
	Load(Param("a"), args)
	MOVQ(field("Consts"), consts)
	MOVQ(field("Sums"), sums)
	XORQ(waiting, waiting)
	s.pin()
	Label("step")
	s.copyInputs()
	MOVQ(field("Weights"), weights)
	MOVQ(field("Tiles"), entry)
	Label("tile")
	if s.turns() {
		MOVQ(field("Weights"), weights)
		ADDQ(tileField(entry, "kits"), weights)
	}
	if s.pipelined {
		CMPQ(tileField(entry, "kits"), Imm(0))
		JNE(LabelRef("interleaved"))
	}
	s.flush("tile")
	Label("interleaved")
	MOVQ(field("Cur"), values)
	MOVQ(tileField(entry, "rows"), count)
	s.dispatch("", count, ints(1, s.rows), "rows")
	for m := 1; m <= s.rows; m++ {
		s.rowTile(m)
	}
	Label("computed")
	// The arguments just stored are pending now; the other buffer is next.
	MOVQ(field("Pending"), pending)
	MOVQ(field("Spare"), count)
	MOVQ(count, field("Pending"))
	MOVQ(pending, field("Spare"))
	MOVQ(field("CurState"), oldState)
	MOVQ(field("NextState"), newState)
	MOVQ(tileField(entry, "offset"), offset)
	ADDQ(Imm(tileSize), entry)
	CMPQ(tileField(entry, "rows"), Imm(0))
	JNE(LabelRef("tile"))
	if s.turns() {
		ADDQ(tileField(entry, "offset"), entry)
		MOVQ(entry, field("Tiles"))
	}
	swap("Cur", "Next")
	swap("CurState", "NextState")
	DECQ(field("Count"))
	JNZ(LabelRef("step"))
	s.flush("end")
	VZEROUPPER()
	RET()
}

func swap(a, b string) {
	MOVQ(field(a), count)
	MOVQ(field(b), values)
	MOVQ(values, field(a))
	MOVQ(count, field(b))
}

// copyInputs puts the inputs the member sees at the readout of Cur.
func (s shape) copyInputs() {
	v := s.regs[0]
	MOVQ(field("Inputs"), weights)
	MOVQ(field("Select"), entry)
	MOVQ(field("Selected"), count)
	MOVQ(field("Cur"), values)
	Label("input")
	MOVQ(at(entry, 0), reg.R13) // pending's register is reloaded below
	for i := range s.vectors {
		if s.single {
			MOVL(scaled(weights, reg.R13, 1, 0), reg.R13L)
			MOVL(reg.R13L, at(values, 0))
			continue
		}
		VMOVUPS(scaled(weights, reg.R13, 1, i*s.bytes), v)
		VMOVUPS(v, at(values, i*s.bytes))
	}
	ADDQ(Imm(8), entry)
	ADDQ(Imm(uint64(s.rowBytes())), values)
	DECQ(count)
	JNZ(LabelRef("input"))
	ADDQ(field("InputStep"), weights)
	MOVQ(weights, field("Inputs"))
	if s.woven {
		s.askAhead()
	}
	MOVQ(field("Spare"), pending)
}

// askAhead asks for the next bytes of the samples ahead, as many as the inputs of one
// sample, in the level 2 cache: in small portions, because a core waits for few lines at
// a time.
func (s shape) askAhead() {
	MOVQ(field("Ahead"), entry)
	TESTQ(entry, entry)
	JZ(LabelRef("asked"))
	MOVQ(field("Selected"), count)
	Label("ask")
	for i := range s.vectors {
		PREFETCHT1(at(entry, i*s.bytes))
	}
	ADDQ(U32(s.rowBytes()), entry)
	DECQ(count)
	JNZ(LabelRef("ask"))
	MOVQ(entry, field("Ahead"))
	Label("asked")
}

// finishPending finishes the next pending vector.
func (s shape) finishPending(id string) {
	r := s.temps()
	r.x = at(pending, 0)
	s.finish(r, id)
	s.nextPending()
}

func (s shape) nextPending() {
	ADDQ(Imm(uint64(s.bytes)), pending)
	ADDQ(Imm(uint64(s.bytes)), offset)
}

// turns: every second sample takes the row tiles in reverse, so that the last
// row tile's weights are still in the level 1 cache. A list of row tiles ends
// with the offset of the next sample's list.
func (s shape) turns() bool { return s.single && !s.masks }

// staged: pending vectors pass several stages, see stages. In other shapes
// permutations finish them at once.
func (s shape) staged() bool { return s.pipelined && !s.masks }

// flush finishes whatever waits.
func (s shape) flush(id string) {
	TESTQ(waiting, waiting)
	JZ(LabelRef("none_" + id))
	Label("flush_" + id)
	s.finishPending("_" + id)
	if s.woven {
		s.finishPending("_second_" + id)
	}
	DECQ(waiting)
	JNZ(LabelRef("flush_" + id))
	Label("none_" + id)
}

// rowTile computes the tanh arguments of m units for all lanes.
func (s shape) rowTile(m int) {
	id := fmt.Sprint(m)
	Label("rows" + id)
	for r := range m {
		if s.single {
			VMOVUPS(at(weights, s.bytes*r), s.acc(r, 0))
			continue
		}
		VBROADCASTSS(at(weights, 4*r), s.acc(r, 0))
		for v := 1; v < s.vectors; v++ {
			VMOVAPS(s.acc(r, 0), s.acc(r, v))
		}
	}
	ADDQ(U32(s.weightBytes()*m), weights)
	if s.pipelined {
		MOVQ(field("Depth"), count)
		TESTQ(waiting, waiting)
		JZ(LabelRef("rest" + id))
		Label("outer" + id)
		if s.woven {
			s.weave(m, id)
		} else {
			s.finishPending("_" + id)
			s.kits(m, id)
		}
		DECQ(waiting)
		JNZ(LabelRef("outer" + id))
		MOVQ(tileField(entry, "rest"), count)
		TESTQ(count, count)
		JZ(LabelRef("done" + id))
	} else {
		MOVQ(field("Depth"), count)
	}
	Label("rest" + id)
	s.kit(m)
	DECQ(count)
	JNZ(LabelRef("rest" + id))
	Label("done" + id)
	MOVQ(field("Pending"), count)
	for r := range m {
		for v := range s.vectors {
			VMOVUPS(s.acc(r, v), at(count, (r*s.vectors+v)*s.bytes))
		}
	}
	if s.woven {
		MOVQ(U32(m), waiting)
	} else {
		MOVQ(U32(m*s.vectors), waiting)
	}
	JMP(LabelRef("computed"))
}

// kits adds the value rows that go between two pending vectors.
func (s shape) kits(m int, id string) {
	MOVQ(tileField(entry, "kits"), count)
	Label("inner" + id)
	s.kit(m)
	DECQ(count)
	JNZ(LabelRef("inner" + id))
}

// some adds count value rows; count may be 0.
func (s shape) some(m int, label string) {
	TESTQ(count, count)
	JZ(LabelRef("no_" + label))
	Label(label)
	s.kit(m)
	DECQ(count)
	JNZ(LabelRef(label))
	Label("no_" + label)
}

// kit adds one value row times its weights to the accumulators of m units.
func (s shape) kit(m int) {
	s.kitAt(m, 0)
	s.moveOn(m, 1)
}

// kitAt does so with the n-th value row from here.
func (s shape) kitAt(m, n int) { s.kitAround(m, n, func() {}) }

// kitAround emits between after each unit's products.
func (s shape) kitAround(m, n int, between func()) {
	first := s.rows * s.vectors
	h, w := s.regs[first:first+s.vectors], s.regs[first+s.vectors]
	weight := func(r int) Mem { return at(weights, s.weightBytes()*(n*m+r)) }
	for v := range s.vectors {
		if s.single {
			VBROADCASTSS(at(values, n*s.rowBytes()), h[v])
			continue
		}
		VMOVUPS(at(values, n*s.rowBytes()+v*s.bytes), h[v])
	}
	for r := range m {
		if s.single {
			VFMADD231PS(weight(r), h[0], s.acc(r, 0))
			continue
		}
		if s.masks && s.vectors == 1 {
			VFMADD231PS_BCST(weight(r), h[0], s.acc(r, 0))
			continue
		}
		VBROADCASTSS(weight(r), w)
		for v := range s.vectors {
			VFMADD231PS(h[v], w, s.acc(r, v))
		}
		between()
	}
}

// moveOn goes n value rows further.
func (s shape) moveOn(m, n int) {
	ADDQ(U32(n*s.weightBytes()*m), weights)
	if bytes := n * s.rowBytes(); bytes < 256 {
		ADDQ(Imm(uint64(bytes)), values)
	} else {
		ADDQ(U32(bytes), values)
	}
}
