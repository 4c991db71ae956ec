package main

import (
	"fmt"
	"slices"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// featureRows are the features of up to 8 streams, stride bytes apart.
type featureRows int

var stride1, stride3 = reg.R10, reg.R12 // once and three times

var fourth = []reg.Register{reg.R9, reg.R11} // of every fourth stream

// begin loads the parameters features and stride.
func (r featureRows) begin() {
	Load(Param("features"), fourth[0])
	if r > 1 {
		Load(Param("stride"), stride1)
		LEAQ(scaled(stride1, stride1, 2, 0), stride3)
		LEAQ(scaled(fourth[0], stride1, 4, 0), fourth[1])
	}
}

func (r featureRows) of(stream int) Mem {
	base := fourth[stream/4]
	return []Mem{at(base, 0), scaled(base, stride1, 1, 0), scaled(base, stride1, 2, 0), scaled(base, stride3, 1, 0)}[stream%4]
}

// next advances by the given bytes.
func (r featureRows) next(bytes int) {
	for _, base := range fourth[:(r+3)/4] {
		ADDQ(U32(bytes), base)
	}
}

// scale emits how a detector centers and scales features, with the sums of the squares:
// four chains of float64 for each stream. A square of a float32 is exact in float64, so
// that a fused multiply-add rounds as an addition does.
func (g *isa) scale(streams int) {
	g.function(fmt.Sprintf("scale%dx", streams), "(sums *float64, features, center, scale *float32, stride, n int)",
		fmt.Sprintf("puts (f - center) * scale in the place of n features f of %d streams, and adds the square of feature j to sum j mod 4 of the stream's four.", streams))
	sums, center, scale, n, rows := reg.RDI, reg.R8, reg.RSI, reg.RCX, featureRows(streams)
	Load(Param("sums"), sums)
	rows.begin()
	Load(Param("center"), center)
	Load(Param("scale"), scale)
	Load(Param("n"), n)
	c, s, free := g.regs[0], g.regs[1], g.regs[2:]
	load := func(stream int, v reg.VecPhysical) {
		VMOVUPS(rows.of(stream), v)
		VSUBPS(c, v, v)
		VMULPS(s, v, v)
		VMOVUPS(v, rows.of(stream))
	}
	var acc []reg.VecPhysical
	var body func()
	if g.masks && streams > 1 {
		// Two streams' sums are in a register.
		acc, free = free[:streams/2], free[streams/2:]
		index := free[:2]
		free = free[2:]
		VMOVUPS(pairIndex(), index[0])
		VMOVUPS(pairIndex().Offset(64), index[1])
		body = func() {
			for i, a := range acc {
				v := free[6*(i%2):]
				load(2*i, v[0])
				load(2*i+1, v[1])
				for half := range index { // of both: features 0 to 7, 8 to 15
					both, high := v[2+2*half], v[3+2*half]
					VMOVDQA64(index[half], both)
					VPERMI2PS(v[1], v[0], both)
					VEXTRACTF64X4(U8(1), both, high.AsY())
					for _, four := range []reg.VecPhysical{both, high} {
						VCVTPS2PD(four.AsY(), four)
						VFMADD231PD(four, four, a)
					}
				}
			}
		}
	} else {
		for _, r := range free[:streams] {
			acc = append(acc, r.AsY().(reg.VecPhysical))
		}
		free = free[streams:]
		body = func() {
			for i, a := range acc {
				v := free[0]
				load(i, v)
				for k := range g.bytes / 16 {
					four := free[1+k%4]
					switch {
					case k == 0:
						VCVTPS2PD(v.AsX(), four.AsY())
					case g.masks:
						VEXTRACTF32X4(U8(k), v, four.AsX())
						VCVTPS2PD(four.AsX(), four.AsY())
					default:
						VEXTRACTF128(U8(k), v, four.AsX())
						VCVTPS2PD(four.AsX(), four.AsY())
					}
					VFMADD231PD(four.AsY(), four.AsY(), a)
				}
			}
		}
	}
	bytes := 32 * streams / len(acc)
	for i, a := range acc {
		VMOVUPD(at(sums, i*bytes), a)
	}
	Label("block")
	VMOVUPS(at(center, 0), c)
	VMOVUPS(at(scale, 0), s)
	body()
	ADDQ(U32(g.bytes), center)
	ADDQ(U32(g.bytes), scale)
	rows.next(g.bytes)
	SUBQ(U32(g.bytes/4), n)
	JG(LabelRef("block"))
	for i, a := range acc {
		VMOVUPD(a, at(sums, i*bytes))
	}
	VZEROUPPER()
	RET()
}

var fours Mem

// pairIndex selects the fours of two vectors: of the first eight lanes, then of the
// last.
func pairIndex() Mem {
	if fours.Base == nil {
		fours = GLOBL("pairIndex", RODATA|NOPTR)
		for i := range 32 {
			four, lane := i/4, i%4
			DATA(4*i, U32(four/2*4+four%2*16+lane))
		}
	}
	return fours
}

// project emits the products of features with the directions, in the lanes of vectors
// whose last may have half the width: a chain of fused multiply-adds over the features
// for each stream.
func (g *isa) project(streams, directions int) {
	vectors, bytes := (4*directions+g.bytes-1)/g.bytes, 4*directions
	of := func(v reg.VecPhysical, k int) reg.VecPhysical { // as vector k of the directions
		if (k+1)*g.bytes > bytes {
			return v.AsY().(reg.VecPhysical)
		}
		return v
	}
	g.function(fmt.Sprintf("project%d_%dx", directions, streams), "(dst, axes, features *float32, stride, n int)",
		fmt.Sprintf("adds the products with %d directions for %d streams whose n features are stride bytes apart.", directions, streams))
	dst, axes, n, rows := reg.RDI, reg.RSI, reg.RCX, featureRows(streams)
	Load(Param("dst"), dst)
	Load(Param("axes"), axes)
	rows.begin()
	Load(Param("n"), n)
	regs := slices.Clone(g.regs)
	acc, w, x := regs[:streams*vectors], regs[streams*vectors:][:vectors], regs[(streams+1)*vectors:][:4]
	for i := range acc {
		acc[i] = of(acc[i], i%vectors)
		VMOVUPS(at(dst, i/vectors*bytes+i%vectors*g.bytes), acc[i])
	}
	Label("feature")
	for k := range w {
		w[k] = of(w[k], k)
		VMOVUPS(at(axes, k*g.bytes), w[k])
	}
	for k := 0; k < bytes; k += 64 {
		PREFETCHT0(at(axes, axesAhead+k))
	}
	for i := range streams {
		v := x[i%len(x)]
		VBROADCASTSS(rows.of(i), v)
		for k := range w {
			VFMADD231PS(w[k], of(v, k), acc[i*vectors+k])
		}
	}
	ADDQ(U32(bytes), axes)
	rows.next(4)
	DECQ(n)
	JNZ(LabelRef("feature"))
	for i := range acc {
		VMOVUPS(acc[i], at(dst, i/vectors*bytes+i%vectors*g.bytes))
	}
	VZEROUPPER()
	RET()
}

// directions returns the numbers of directions at once.
func (g *isa) directions() []int {
	if g.masks {
		return []int{48, 40, 32, 16}
	}
	return []int{8}
}

// together emits the products of scaled features with directions, and in parallel the
// products of other values with a readout's columns, for 8 streams: in the lanes in mask
// of the last of three vectors.
func (g *isa) together() {
	const streams, vectors = 8, 3
	g.function("together", "(dst, columns, features *float32, stride int, others *float32, mask, n int)",
		"adds the products with 48 columns for 8 streams whose n features are stride bytes apart; of columns 32 to 47 those in mask are multiplied with others, 2048 bytes apart.")
	dst, columns, others, n, rows := reg.RDI, reg.RSI, reg.R8, reg.RCX, featureRows(streams)
	Load(Param("dst"), dst)
	Load(Param("columns"), columns)
	rows.begin()
	Load(Param("others"), others)
	Load(Param("mask"), reg.RAX)
	KMOVW(reg.EAX, reg.K1)
	Load(Param("n"), n)
	acc, w, x := g.regs[:streams*vectors], g.regs[streams*vectors:][:vectors], g.regs[(streams+1)*vectors:]
	for i := range acc {
		VMOVUPS(at(dst, i*g.bytes), acc[i])
	}
	Label("feature")
	for k := range w {
		VMOVUPS(at(columns, k*g.bytes), w[k])
		PREFETCHT0(at(columns, axesAhead+k*g.bytes))
	}
	for i := range streams {
		v := x[i%len(x)]
		VBROADCASTSS(rows.of(i), v)
		VFMADD231PS(w[0], v, acc[i*vectors])
		VFMADD231PS(w[1], v, acc[i*vectors+1])
		VBROADCASTSS(at(others, 2048*i), reg.K1, v)
		VFMADD231PS(w[2], v, acc[i*vectors+2])
	}
	ADDQ(U32(vectors*g.bytes), columns)
	ADDQ(Imm(4), others)
	rows.next(4)
	DECQ(n)
	JNZ(LabelRef("feature"))
	for i := range acc {
		VMOVUPS(acc[i], at(dst, i*g.bytes))
	}
	VZEROUPPER()
	RET()
}

// axesAhead is the number of prefetched bytes of directions, or of columns. All of them
// exceed a level 2 cache.
const axesAhead = 8192
