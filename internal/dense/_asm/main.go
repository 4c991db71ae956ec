// Command _asm generates the assembly of package dense: for each instruction
// set the tile of the matrix product, the solve of a panel and the packing of
// features. Run it by go generate in the parent
// directory.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// isa is an instruction set. A tile has as many rows as a vector has lanes, by three
// vectors: this size fills the registers (AVX-512: 24 accumulators of 32, AVX2: 12 of
// 16), hides the latency of the multiply-adds, and needs fewer loads than the two per
// cycle of a core.
type isa struct {
	name  string
	lanes int // float64 of a vector
	regs  []reg.VecPhysical
}

const vectors = 3

var sets = []isa{
	{"AVX512", 8, []reg.VecPhysical{
		reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7, reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
		reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23, reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31,
	}},
	{"AVX2", 4, []reg.VecPhysical{
		reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7, reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15,
	}},
}

func main() {
	ConstraintExpr("amd64,!purego")
	for _, s := range sets {
		s.tile()
		s.solve()
		s.widen()
		s.peak()
	}
	Generate()
}

func (s isa) function(name, signature, doc string) {
	TEXT(name+s.name, NOSPLIT, "func"+signature)
	Pragma("noescape")
	Doc(name + s.name + " " + doc)
}

func (s isa) acc(row, vector int) reg.VecPhysical { return s.regs[row*vectors+vector] }

func at(base reg.Register, disp int) Mem { return Mem{Base: base, Disp: disp} }

func (s isa) tile() {
	s.function("tile", "(c *float64, stride int, alpha float64, a, b *float64, depth int)",
		fmt.Sprintf("is a tile of %d x %d.", s.lanes, vectors*s.lanes))
	c, stride, a, b, depth, row := reg.RDI, reg.R8, reg.RSI, reg.RDX, reg.RCX, reg.RAX
	Load(Param("c"), c)
	Load(Param("stride"), stride)
	Load(Param("a"), a)
	Load(Param("b"), b)
	Load(Param("depth"), depth)
	SHLQ(U8(3), stride)

	for _, z := range s.regs[:s.lanes*vectors] {
		VXORPD(z, z, z)
	}
	// Rows of c are prefetched one at a time: prefetching a whole tile at once would keep
	// the panels out of the queue to the second-level cache. After the last row of its
	// own tile the loop continues with the rows of the next tile below: prefetching
	// beyond the end of memory is allowed.
	const unroll = 8
	MOVQ(c, row)
	SUBQ(U8(unroll), depth)
	JL(LabelRef("rest"))
	Label("loop")
	for line := 0; line < 8*vectors*s.lanes; line += 64 {
		PREFETCHT0(at(row, line))
	}
	PREFETCHT0(at(row, 8*vectors*s.lanes-1)) // rows need not be aligned to cache lines
	ADDQ(stride, row)
	for u := range unroll {
		s.multiply(a, b, u)
	}
	s.advance(a, b, unroll)
	SUBQ(U8(unroll), depth)
	JGE(LabelRef("loop"))
	Label("rest")
	ADDQ(U8(unroll), depth)
	JZ(LabelRef("add"))
	Label("one")
	s.multiply(a, b, 0)
	s.advance(a, b, 1)
	DECQ(depth)
	JNZ(LabelRef("one"))

	Label("add")
	alpha := s.regs[len(s.regs)-1]
	mem, err := Param("alpha").Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSD(mem.Addr, alpha)
	old := s.regs[len(s.regs)-2]
	for r := range s.lanes {
		for v := range vectors {
			VMOVUPD(at(c, v*8*s.lanes), old)
			VFMADD231PD(alpha, s.acc(r, v), old)
			VMOVUPD(old, at(c, v*8*s.lanes))
		}
		ADDQ(stride, c)
	}
	VZEROUPPER()
	RET()
}

// multiply adds the products of the panels' row u to all sums.
func (s isa) multiply(a, b reg.Register, u int) {
	free := s.regs[s.lanes*vectors:]
	cols, rows := free[:vectors], free[vectors:]
	from := u * 8 * vectors * s.lanes
	for v, x := range cols {
		VMOVUPD(at(b, from+v*8*s.lanes), x)
	}
	for r := range s.lanes {
		x := rows[r%len(rows)]
		VBROADCASTSD(at(a, from+8*r), x)
		for v := range vectors {
			VFMADD231PD(cols[v], x, s.acc(r, v))
		}
	}
}

func (s isa) advance(a, b reg.Register, rows int) {
	ADDQ(U32(rows*8*vectors*s.lanes), a)
	ADDQ(U32(rows*8*vectors*s.lanes), b)
}

// solve keeps a value of every row of a panel in three registers while the previous
// values are subtracted.
func (s isa) solve() {
	s.function("solve", "(x *float64, step int, l *float64, down, right, n int)",
		fmt.Sprintf("solves a panel of %d rows.", vectors*s.lanes))
	first, l, step, down, right, n := reg.RDI, reg.RSI, reg.R8, reg.R9, reg.R10, reg.RCX
	Load(Param("x"), first)
	Load(Param("l"), l)
	Load(Param("n"), n)
	Load(Param("step"), step)
	Load(Param("down"), down)
	Load(Param("right"), right)
	for _, r := range []reg.GPPhysical{step, down, right} {
		SHLQ(U8(3), r)
	}
	x, from, with, k, found := reg.RDX, reg.R11, reg.R12, reg.R13, reg.RAX
	sum, factor := s.regs[:vectors], s.regs[vectors]
	MOVQ(first, x)
	XORQ(found, found)
	Label("next")
	for v, z := range sum {
		VMOVUPD(at(x, v*8*s.lanes), z)
	}
	MOVQ(first, from)
	MOVQ(l, with)
	MOVQ(found, k)
	TESTQ(k, k)
	JZ(LabelRef("divide"))
	Label("take")
	VBROADCASTSD(at(with, 0), factor)
	for v, z := range sum {
		VFNMADD231PD(at(from, v*8*s.lanes), factor, z)
	}
	ADDQ(step, from)
	ADDQ(right, with)
	DECQ(k)
	JNZ(LabelRef("take"))
	Label("divide")
	VBROADCASTSD(at(with, 0), factor)
	for v, z := range sum {
		VDIVPD(factor, z, z)
		VMOVUPD(z, at(x, v*8*s.lanes))
	}
	ADDQ(step, x)
	ADDQ(down, l)
	INCQ(found)
	CMPQ(found, n)
	JL(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// widen keeps the center and scale of a panel's features in registers.
func (s isa) widen() {
	s.function("widen", "(dst *float64, src *float32, stride int, center, scale *float64, n int)",
		fmt.Sprintf("packs n samples of %d features.", vectors*s.lanes))
	dst, src, stride, n, from := reg.RDI, reg.RSI, reg.R8, reg.RCX, reg.RAX
	Load(Param("dst"), dst)
	Load(Param("src"), src)
	Load(Param("stride"), stride)
	SHLQ(U8(2), stride)
	Load(Param("n"), n)
	center, scale, x := s.regs[:vectors], s.regs[vectors:2*vectors], s.regs[2*vectors:3*vectors]
	for i, name := range []string{"center", "scale"} {
		Load(Param(name), from)
		for v, z := range [][]reg.VecPhysical{center, scale}[i] {
			VMOVUPD(at(from, v*8*s.lanes), z)
		}
	}
	Label("sample")
	for v, z := range x {
		VCVTPS2PD(at(src, v*4*s.lanes), z)
		VSUBPD(center[v], z, z)
		VMULPD(scale[v], z, z)
		VMOVUPD(z, at(dst, v*8*s.lanes))
	}
	ADDQ(stride, src)
	ADDQ(U32(8*vectors*s.lanes), dst)
	DECQ(n)
	JNZ(LabelRef("sample"))
	VZEROUPPER()
	RET()
}

// peakChains independent chains cover the latency of every core's units.
const peakChains = 12

func (s isa) peak() {
	s.function("peak", "(n int)", fmt.Sprintf("does %d x n fused multiply-adds of %d lanes.", peakChains, s.lanes))
	n := Load(Param("n"), reg.RCX)
	a, b := s.regs[peakChains], s.regs[peakChains+1]
	for _, r := range s.regs[:peakChains+2] {
		VXORPD(r, r, r)
	}
	Label("loop")
	for i := range peakChains {
		VFMADD231PD(a, b, s.regs[i])
	}
	DECQ(n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}
