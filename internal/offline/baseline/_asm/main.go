// Command _asm generates the assembly of package baseline, for AVX2: a product of float32
// matrices, the element-wise parts of a step, forward and backward, and of the optimizer.
// Run it by go generate in the parent directory.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

const (
	lanes = 8
	bytes = 4 * lanes // of a vector
)

var y = []reg.VecPhysical{
	reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7,
	reg.Y8, reg.Y9, reg.Y10, reg.Y11, reg.Y12, reg.Y13, reg.Y14, reg.Y15,
}

func main() {
	ConstraintExpr("amd64,!purego")
	constants()
	for vectors := 1; vectors <= 3; vectors++ {
		product(vectors)
	}
	euler()
	eulerBack()
	gru()
	gruBack()
	adam()
	Generate()
}

func function(name, signature, doc string) {
	TEXT(name, NOSPLIT, "func"+signature)
	Pragma("noescape")
	Doc(name + " " + doc)
}

// load reads parameters, in turn, into registers; for a slice, the address of its first
// element.
func load(names []string, into []reg.GPPhysical) {
	for i, name := range names {
		p := Param(name)
		if _, err := p.Resolve(); err != nil {
			p = p.Base()
		}
		Load(p, into[i])
	}
}

// scalar broadcasts a float32 parameter.
func scalar(name string, to reg.VecPhysical) {
	p, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	VBROADCASTSS(p.Addr, to)
}

func at(base reg.Register, disp int) Mem { return Mem{Base: base, Disp: disp} }

// product keeps four rows of c, vectors wide, in registers over the whole depth. With
// three vectors, a round is 12 multiply-adds for seven loads, in all 16 registers.
func product(vectors int) {
	function(fmt.Sprintf("product%d", vectors), "(c []float32, cStride int, a []float32, aRow, aCol int, b []float32, bStride, depth, quads int)",
		fmt.Sprintf("is a product of %d columns.", lanes*vectors))
	c, cs, a, ar, ac, b, bs := reg.RDI, reg.R8, reg.RSI, reg.R9, reg.R10, reg.RDX, reg.R11
	load([]string{"c", "cStride", "a", "aRow", "aCol", "b", "bStride"}, []reg.GPPhysical{c, cs, a, ar, ac, b, bs})
	for _, r := range []reg.GPPhysical{cs, ar, ac, bs} {
		SHLQ(U8(2), r)
	}
	quads, k, x, x3, from := reg.R12, reg.RCX, reg.RAX, reg.RBX, reg.R13
	Load(Param("quads"), quads)
	Label("quad")
	row := func(base, base3, stride reg.Register, r int) Mem {
		if r == 3 {
			return Mem{Base: base3}
		}
		m := Mem{Base: base}
		if r > 0 {
			m.Index, m.Scale = stride, uint8(r)
		}
		return m
	}
	c3 := x3 // before and after the loop
	each := func(do func(m Mem, z reg.VecPhysical)) {
		LEAQ(Mem{Base: c, Index: cs, Scale: 2}, c3)
		ADDQ(cs, c3)
		for r := range 4 {
			for v := range vectors {
				m := row(c, c3, cs, r)
				m.Disp = v * bytes
				do(m, y[r*vectors+v])
			}
		}
	}
	each(func(m Mem, z reg.VecPhysical) { VMOVUPS(m, z) })
	MOVQ(a, x)
	LEAQ(Mem{Base: a, Index: ar, Scale: 2}, x3)
	ADDQ(ar, x3)
	MOVQ(b, from)
	Load(Param("depth"), k)
	Label("deep")
	for v := range vectors {
		VMOVUPS(at(from, v*bytes), y[12+v])
	}
	for r := range 4 {
		VBROADCASTSS(row(x, x3, ar, r), y[15])
		for v := range vectors {
			VFMADD231PS(y[12+v], y[15], y[r*vectors+v])
		}
	}
	ADDQ(ac, x)
	ADDQ(ac, x3)
	ADDQ(bs, from)
	DECQ(k)
	JNZ(LabelRef("deep"))
	each(func(m Mem, z reg.VecPhysical) { VMOVUPS(z, m) })
	LEAQ(Mem{Base: c, Index: cs, Scale: 4}, c)
	LEAQ(Mem{Base: a, Index: ar, Scale: 4}, a)
	DECQ(quads)
	JNZ(LabelRef("quad"))
	VZEROUPPER()
	RET()
}

// Constants, one vector each.
var absolute, sign, coarse, shift, saturation, one, half, first, second, small Mem

func constants() {
	vector := func(name string, bits uint32) Mem {
		m := GLOBL(name, RODATA|NOPTR)
		for i := range lanes {
			DATA(4*i, U32(bits))
		}
		return m
	}
	absolute = vector("absolute", 1<<31-1)
	sign = vector("sign", 1<<31)
	coarse = vector("coarse", ^uint32(1<<21-1))
	shift = vector("shift", 0x3f200000)           // canon.TanhShift
	saturation = vector("saturation", 0x41104000) // canon.Saturation
	one = vector("one", 0x3f800000)
	half = vector("half", 0x3f000000)
	first = vector("first", 0x3dcccccd)   // 1 - beta1
	second = vector("second", 0x3a83126f) // 1 - beta2
	small = vector("small", 0x33d6bf95)   // epsilon
}

// tanh replaces x by its canon.Tanh. It uses y[8] to y[15]; table is the address of
// canon's coefficients, two vectors for each power.
func tanh(table reg.Register, x reg.VecPhysical) {
	signs, a, v, high, d, r, low, t := y[8], y[9], y[10], y[11], y[12], y[13], y[14], y[15]
	VANDPS(sign, x, signs)
	VANDPS(absolute, x, a)
	VMOVUPS(saturation, t)
	VMINPS(a, t, a) // a NaN remains
	VADDPS(shift, a, v)
	VANDPS(coarse, v, d)
	VSUBPS(shift, d, d)
	VSUBPS(d, a, d)
	VPSLLD(U8(7), v, high) // bit 24 becomes the sign: the half of the table
	VPSRLD(U8(21), v, v)
	for k := 5; k >= 0; k-- {
		VPERMPS(at(table, 2*k*bytes), v, low)
		VPERMPS(at(table, (2*k+1)*bytes), v, t)
		if k == 5 {
			VBLENDVPS(high, t, low, r)
			continue
		}
		VBLENDVPS(high, t, low, t)
		VFMADD213PS(t, d, r)
	}
	VMOVUPS(one, t)
	VMINPS(r, t, r)
	VORPS(signs, r, x)
}

// sigmoid replaces x by (1 + tanh(x/2))/2.
func sigmoid(table reg.Register, x reg.VecPhysical) {
	VMULPS(half, x, x)
	tanh(table, x)
	VMOVUPS(half, y[15])
	VFMADD213PS(y[15], y[15], x)
}

// rows loops over rows and their vectors: body works at the offset in a register. Each
// base advances by its stride after a row.
func rows(j reg.GPPhysical, bases, strides []reg.GPPhysical, body func()) {
	n := reg.R14
	Label("row")
	XORQ(j, j)
	Load(Param("units"), n)
	Label("vector")
	body()
	ADDQ(U8(bytes), j)
	SUBQ(U8(lanes), n)
	JNZ(LabelRef("vector"))
	for i, b := range bases {
		ADDQ(strides[i], b)
	}
	DECQ(reg.R13)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

func indexed(base, j reg.Register) Mem { return Mem{Base: base, Index: j, Scale: 1} }

func euler() {
	function("eulerForward", "(table, a []float32, aStride int, h, next []float32, hStride int, keep, gain float32, units, rows int)",
		"is a step of rnn and arnn.")
	table, a, as, h, next, hs, j := reg.RAX, reg.RDI, reg.R8, reg.RSI, reg.RDX, reg.R9, reg.RCX
	load([]string{"table", "a", "aStride", "h", "next", "hStride", "rows"}, []reg.GPPhysical{table, a, as, h, next, hs, reg.R13})
	SHLQ(U8(2), as)
	SHLQ(U8(2), hs)
	keep, gain := y[6], y[7]
	scalar("keep", keep)
	scalar("gain", gain)
	rows(j, []reg.GPPhysical{a, h, next}, []reg.GPPhysical{as, hs, hs}, func() {
		VMOVUPS(indexed(a, j), y[0])
		tanh(table, y[0])
		VMOVUPS(y[0], indexed(a, j))
		VMULPS(indexed(h, j), keep, y[1])
		VFMADD231PS(y[0], gain, y[1])
		VMOVUPS(y[1], indexed(next, j))
	})
}

// slope leaves 1 - x*x in to.
func slope(x, to reg.VecPhysical) {
	VMOVUPS(one, to)
	VFNMADD231PS(x, x, to)
}

func eulerBack() {
	function("eulerBackward", "(a []float32, aStride int, d, back []float32, dStride int, keep, gain float32, units, rows int)",
		"is the gradient of a step of rnn and arnn.")
	a, as, d, back, ds, j := reg.RDI, reg.R8, reg.RSI, reg.RDX, reg.R9, reg.RCX
	load([]string{"a", "aStride", "d", "back", "dStride", "rows"}, []reg.GPPhysical{a, as, d, back, ds, reg.R13})
	SHLQ(U8(2), as)
	SHLQ(U8(2), ds)
	keep, gain := y[6], y[7]
	scalar("keep", keep)
	scalar("gain", gain)
	rows(j, []reg.GPPhysical{a, d, back}, []reg.GPPhysical{as, ds, ds}, func() {
		VMOVUPS(indexed(a, j), y[0])
		slope(y[0], y[1])
		VMULPS(indexed(d, j), gain, y[2])
		VMULPS(y[1], y[2], y[2])
		VMOVUPS(y[2], indexed(a, j))
		VMULPS(indexed(d, j), keep, y[3])
		VMOVUPS(y[3], indexed(back, j))
	})
}

func gru() {
	function("gruForward", "(table, z, r, y, uz, ur, uy []float32, stride int, h, next []float32, hStride, units, rows int)",
		"is a step of gru.")
	names := []string{"table", "z", "r", "y", "uz", "ur", "uy", "h", "next", "rows"}
	table, h, next, j, s := reg.RAX, reg.R11, reg.R12, reg.RCX, reg.R15
	p := []reg.GPPhysical{reg.RDI, reg.RSI, reg.RDX, reg.R8, reg.R9, reg.R10}
	load(names, append(append([]reg.GPPhysical{table}, p...), h, next, reg.R13))
	Load(Param("stride"), s)
	Load(Param("hStride"), reg.RBX)
	SHLQ(U8(2), s)
	SHLQ(U8(2), reg.RBX)
	rows(j, append(append([]reg.GPPhysical{}, p...), h, next), []reg.GPPhysical{s, s, s, s, s, s, reg.RBX, reg.RBX}, func() {
		for gate := range 2 {
			VMOVUPS(indexed(p[gate], j), y[gate])
			VADDPS(indexed(p[3+gate], j), y[gate], y[gate])
			sigmoid(table, y[gate])
			VMOVUPS(y[gate], indexed(p[gate], j))
		}
		VMOVUPS(indexed(p[2], j), y[2])
		VFMADD231PS(indexed(p[5], j), y[1], y[2])
		tanh(table, y[2])
		VMOVUPS(y[2], indexed(p[2], j))
		VMOVUPS(indexed(h, j), y[3])
		VSUBPS(y[2], y[3], y[3])
		VFMADD213PS(y[2], y[0], y[3]) // y + z*(h-y)
		VMOVUPS(y[3], indexed(next, j))
	})
}

func gruBack() {
	function("gruBackward", "(z, r, y, uz, ur, uy []float32, stride int, h []float32, hStride int, d, back []float32, dStride, units, rows int)",
		"is the gradient of a step of gru.")
	h, d, back, j, s := reg.R11, reg.R12, reg.RAX, reg.RCX, reg.R15
	p := []reg.GPPhysical{reg.RDI, reg.RSI, reg.RDX, reg.R8, reg.R9, reg.R10}
	load([]string{"z", "r", "y", "uz", "ur", "uy", "h", "d", "back", "rows"}, append(append([]reg.GPPhysical{}, p...), h, d, back, reg.R13))
	Load(Param("stride"), s)
	SHLQ(U8(2), s)
	// All registers are in use: both remaining strides share one register.
	hs := reg.RBX
	Load(Param("hStride"), hs)
	SHLQ(U8(2), hs)
	ds := reg.R14 // only between rows
	n := reg.R14
	Label("row")
	XORQ(j, j)
	Load(Param("units"), n)
	Label("vector")
	z, r, o, g, uy := y[0], y[1], y[2], y[3], y[4]
	VMOVUPS(indexed(p[0], j), z)
	VMOVUPS(indexed(p[1], j), r)
	VMOVUPS(indexed(p[2], j), o)
	VMOVUPS(indexed(d, j), g)
	VMOVUPS(indexed(p[5], j), uy)
	VMOVUPS(one, y[5])
	VSUBPS(z, y[5], y[6]) // 1-z
	VSUBPS(r, y[5], y[7]) // 1-r
	slope(o, y[8])
	VMULPS(y[6], g, y[9])
	VMULPS(y[8], y[9], y[9]) // dy
	VMULPS(uy, y[9], y[10])
	VMULPS(y[7], r, y[7])
	VMULPS(y[7], y[10], y[10]) // dr
	VMOVUPS(indexed(h, j), y[11])
	VSUBPS(o, y[11], y[11])
	VMULPS(y[11], g, y[11])
	VMULPS(y[6], z, y[6])
	VMULPS(y[6], y[11], y[11]) // dz
	VMULPS(r, y[9], y[12])
	VMULPS(z, g, y[13])
	for i, v := range []reg.VecPhysical{y[11], y[10], y[9], y[11], y[10], y[12]} {
		VMOVUPS(v, indexed(p[i], j))
	}
	VMOVUPS(y[13], indexed(back, j))
	ADDQ(U8(bytes), j)
	SUBQ(U8(lanes), n)
	JNZ(LabelRef("vector"))
	for _, b := range p {
		ADDQ(s, b)
	}
	ADDQ(hs, h)
	Load(Param("dStride"), ds)
	SHLQ(U8(2), ds)
	ADDQ(ds, d)
	ADDQ(ds, back)
	DECQ(reg.R13)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

func adam() {
	function("adamStep", "(w, g, mean, square []float32, rate float32)", "is a step of the optimizer.")
	w, g, mean, square, j, n := reg.RDI, reg.RSI, reg.RDX, reg.R8, reg.RCX, reg.R9
	load([]string{"w", "g", "mean", "square"}, []reg.GPPhysical{w, g, mean, square})
	Load(Param("w").Len(), n)
	rate, zero, beta1, beta2, eps := y[7], y[8], y[9], y[10], y[11]
	scalar("rate", rate)
	VXORPS(zero, zero, zero)
	VMOVUPS(first, beta1)
	VMOVUPS(second, beta2)
	VMOVUPS(small, eps)
	XORQ(j, j)
	Label("vector")
	VMOVUPS(indexed(g, j), y[0])
	VMOVUPS(indexed(mean, j), y[1])
	VMOVUPS(indexed(square, j), y[2])
	VMOVUPS(zero, indexed(g, j))
	VSUBPS(y[1], y[0], y[3])
	VFMADD231PS(y[3], beta1, y[1])
	VFMSUB213PS(y[2], y[0], y[0]) // g*g - square
	VFMADD231PS(y[0], beta2, y[2])
	VMOVUPS(y[1], indexed(mean, j))
	VMOVUPS(y[2], indexed(square, j))
	VSQRTPS(y[2], y[2])
	VADDPS(eps, y[2], y[2])
	VMULPS(y[1], rate, y[1])
	VDIVPS(y[2], y[1], y[1])
	VMOVUPS(indexed(w, j), y[3])
	VSUBPS(y[1], y[3], y[3])
	VMOVUPS(y[3], indexed(w, j))
	ADDQ(U8(bytes), j)
	SUBQ(U8(lanes), n)
	JNZ(LabelRef("vector"))
	VZEROUPPER()
	RET()
}
