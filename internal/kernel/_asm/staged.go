package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// kits are the possible numbers of value rows between two pending vectors: each
// number has its own code, without loops between the phases. Package kernel
// gets the list as stagedKits. More than 10 gain nothing (200 units, Zen 3).
var kits = []int{1, 2, 3, 4, 5, 7, 10}

// leastStaged is the smallest row tile with this code; smaller row tiles, of
// which a member has none or few, finish the pending vectors before they begin.
func (s shape) leastStaged() int { return s.rows - 1 }

// stagedSteps is steps for a shape that finishes pending vectors in phases.
// oldState, newState and sums point to the place of a pending vector less its
// address, so that one register counts for all; sums is 0 if only the new state
// is needed.
func (s shape) stagedSteps() {
	var late []string
	s.function("steps"+s.name, "(a *byte)", fmt.Sprintf("advances %d streams by a.Count samples.", s.lanes()))
	Load(Param("a"), args)
	MOVQ(field("Consts"), consts)
	MOVQ(field("Sums"), sums)
	TESTB(U8(flagKeep), field("Flags"))
	JZ(LabelRef("whole"))
	ORQ(Imm(1), sums)
	Label("whole")
	XORQ(waiting, waiting)
	Label("step")
	s.copyInputs()
	MOVQ(field("Weights"), weights)
	MOVQ(field("Tiles"), entry)
	Label("tile")
	CMPQ(tileField(entry, "kits"), Imm(0))
	JNE(LabelRef("interleaved"))
	s.flushStaged("tile", &late)
	Label("interleaved")
	MOVQ(field("Cur"), values)
	MOVQ(tileField(entry, "rows"), count)
	s.dispatch("", count, ints(1, s.rows), "rows")
	for m := 1; m <= s.rows; m++ {
		s.stagedTile(m, &late)
	}
	Label("computed")
	// The arguments just stored are pending now; the other buffer is next.
	MOVQ(field("Pending"), pending)
	MOVQ(field("Spare"), count)
	MOVQ(count, field("Pending"))
	MOVQ(pending, field("Spare"))
	MOVQ(tileField(entry, "offset"), count)
	SUBQ(pending, count)
	MOVQ(field("CurState"), oldState)
	ADDQ(count, oldState)
	MOVQ(field("NextState"), newState)
	ADDQ(count, newState)
	TESTQ(sums, sums)
	JZ(LabelRef("none"))
	MOVQ(field("Sums"), sums)
	LEAQ(scaled(sums, count, 4, 0), sums)
	Label("none")
	ADDQ(Imm(tileSize), entry)
	CMPQ(tileField(entry, "rows"), Imm(0))
	JNE(LabelRef("tile"))
	swap("Cur", "Next")
	swap("CurState", "NextState")
	DECQ(field("Count"))
	JNZ(LabelRef("step"))
	s.flushStaged("end", &late)
	VZEROUPPER()
	RET()
	for _, id := range late {
		s.more(id)
	}
}

// flushStaged finishes whatever waits.
func (s shape) flushStaged(id string, late *[]string) {
	TESTQ(waiting, waiting)
	JZ(LabelRef("none_" + id))
	s.stages().find(at(pending, 0), 0)
	Label("flush_" + id)
	for n := range phases {
		s.phase(n, "_"+id)
	}
	*late = append(*late, "_"+id)
	DECQ(waiting)
	JNZ(LabelRef("flush_" + id))
	Label("none_" + id)
}

func ints(lo, hi int) (list []int) {
	for i := lo; i <= hi; i++ {
		list = append(list, i)
	}
	return list
}

// dispatch jumps to the label of the value of n, one of a list in order, by
// bisection.
func (s shape) dispatch(id string, n Op, list []int, label string) {
	if len(list) == 1 {
		JMP(LabelRef(fmt.Sprint(label, list[0])))
		return
	}
	mid := (len(list) - 1) / 2
	right := fmt.Sprintf("above%d%s", list[mid], id)
	CMPQ(n, Imm(uint64(list[mid])))
	JA(LabelRef(right))
	s.dispatch(id, n, list[:mid+1], label)
	Label(right)
	s.dispatch(id, n, list[mid+1:], label)
}

// stagedTile computes the tanh arguments of m units for all lanes.
func (s shape) stagedTile(m int, late *[]string) {
	id := fmt.Sprint(m)
	Label("rows" + id)
	for r := range m {
		VBROADCASTSS(at(weights, 4*r), s.acc(r, 0))
		for v := 1; v < s.vectors; v++ {
			VMOVAPS(s.acc(r, 0), s.acc(r, v))
		}
	}
	ADDQ(U32(s.weightBytes()*m), weights)
	if m >= s.leastStaged() {
		MOVQ(field("Depth"), count)
		TESTQ(waiting, waiting)
		JZ(LabelRef("rest" + id))
		MOVL(tileField(entry, "rest").Offset(4), count.As32())
		s.some(m, "lead"+id)
		MOVQ(tileField(entry, "kits"), count)
		s.dispatch("_kits"+id, count, kits, "kits"+id+"_")
		for _, n := range kits {
			s.between(m, n, late)
			JMP(LabelRef("finished" + id))
		}
		Label("finished" + id)
		MOVL(tileField(entry, "rest"), count.As32())
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
	s.locate(m, count)
	MOVQ(U32(m*s.vectors), waiting)
	JMP(LabelRef("computed"))
}

// between finishes the pending vectors with n value rows for each vector,
// spread over the phases.
func (s shape) between(m, n int, late *[]string) {
	id := fmt.Sprintf("%d_%d", m, n)
	Label("kits" + id)
	s.stages().find(at(pending, 0), 0)
	Label("loop" + id)
	const unmoved = 5 // the addresses of this many kits are short
	at := 0
	for i := range phases {
		s.phase(i, "_"+id)
		for k := n * i / phases; k < n*(i+1)/phases; k++ {
			if at == unmoved {
				s.moveOn(m, at)
				at = 0
			}
			s.kitAt(m, at)
			at++
		}
	}
	*late = append(*late, "_"+id)
	s.moveOn(m, at)
	DECQ(waiting)
	JNZ(LabelRef("loop" + id))
}
