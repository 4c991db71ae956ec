package ptx

import (
	"math/bits"
	"strings"
)

// form makes an instruction's action from its operands.
type form func(p *parser, o []operand) func(w *warp, mask uint32)

// compile sets the action of an instruction.
func (p *parser) compile(in *instruction, op string, o []operand) {
	need := func(n int) {
		if len(o) != n {
			p.fail("%s with %d operands, want %d", op, len(o), n)
		}
	}
	switch op {
	case "bra", "bra.uni":
		need(1)
		if o[0].kind != isName {
			p.fail("%s to something that is no label", op)
		}
		in.kind = branch
		p.branches = append(p.branches, pending{len(p.k.code), o[0].name, in.line})
		return
	case "bar.sync":
		need(1)
		if o[0].kind != isImmediate || o[0].value != 0 {
			p.fail("only barrier 0 is supported")
		}
		in.kind = barrier
		return
	case "bar.warp.sync":
		need(1)
		if o[0].kind != isImmediate || uint32(o[0].value) != all {
			p.fail("only a full warp's barrier is supported")
		}
		in.kind, in.run = together, func(*warp, uint32) {}
		return
	case "ret", "exit":
		need(0)
		in.kind = exit
		return
	}
	if f, ok := forms[op]; ok {
		need(f.operands)
		in.run = f.make(p, o)
		if strings.HasPrefix(op, "mma.sync.") || strings.HasPrefix(op, "shfl.sync.") {
			in.kind = together
		}
		return
	}
	if in.run = p.memory(op, o); in.run == nil {
		p.position--
		p.fail("unsupported instruction %q", op)
	}
}

// forms are the instructions that only compute.
var forms = map[string]struct {
	operands int
	make     form
}{}

func addForm(names string, operands int, f form) {
	for _, n := range strings.Fields(names) {
		forms[n] = struct {
			operands int
			make     form
		}{operands, f}
	}
}

// Each function below takes the function of one lane. Each contains its own loop over the
// lanes of a mask, for speed.

// register is the content of a register of class word or long.
type register interface{ uint32 | uint64 }

func classOf[T register]() class {
	var v T
	if _, is := any(v).(uint64); is {
		return long
	}
	return word
}

// lanes returns one register of all lanes; from is the index of lane 0.
func lanes[T register](w *warp, from int) *[32]T {
	if r, is := any(&w.r).(*[]T); is {
		return (*[32]T)((*r)[from:])
	}
	return (*[32]T)((*any(&w.l).(*[]T))[from:])
}

func each1[D, A register](f func(a A) D) form {
	return func(p *parser, o []operand) func(w *warp, mask uint32) {
		d, a := 32*p.outputRegister(o[0], classOf[D]()), 32*p.inputRegister(o[1], classOf[A]())
		return func(w *warp, mask uint32) {
			to, x := lanes[D](w, d), lanes[A](w, a)
			for m := mask; m != 0; m &= m - 1 {
				i := bits.TrailingZeros32(m) & 31
				to[i] = f(x[i])
			}
		}
	}
}

func each2[D, A, B register](f func(a A, b B) D) form {
	return func(p *parser, o []operand) func(w *warp, mask uint32) {
		d, a, b := 32*p.outputRegister(o[0], classOf[D]()), 32*p.inputRegister(o[1], classOf[A]()), 32*p.inputRegister(o[2], classOf[B]())
		return func(w *warp, mask uint32) {
			to, x, y := lanes[D](w, d), lanes[A](w, a), lanes[B](w, b)
			for m := mask; m != 0; m &= m - 1 {
				i := bits.TrailingZeros32(m) & 31
				to[i] = f(x[i], y[i])
			}
		}
	}
}

func each3(f func(a, b, c uint32) uint32) form {
	return func(p *parser, o []operand) func(w *warp, mask uint32) {
		d, a, b, c := 32*p.outputRegister(o[0], word), 32*p.inputRegister(o[1], word), 32*p.inputRegister(o[2], word), 32*p.inputRegister(o[3], word)
		return func(w *warp, mask uint32) {
			D, A, B, C := (*lanes32)(w.r[d:]), (*lanes32)(w.r[a:]), (*lanes32)(w.r[b:]), (*lanes32)(w.r[c:])
			for m := mask; m != 0; m &= m - 1 {
				i := bits.TrailingZeros32(m) & 31
				D[i] = f(A[i], B[i], C[i])
			}
		}
	}
}

// Predicates are words with a bit for each lane.
func logic(operands int, f func(a, b uint32) uint32) form {
	return func(p *parser, o []operand) func(w *warp, mask uint32) {
		d, a := p.outputRegister(o[0], pred), p.inputRegister(o[1], pred)
		b := a
		if operands == 2 {
			b = p.inputRegister(o[2], pred)
		}
		return func(w *warp, mask uint32) { w.p[d] = w.p[d]&^mask | f(w.p[a], w.p[b])&mask }
	}
}

func comparison[A register](f func(a, b A) bool) form {
	return func(p *parser, o []operand) func(w *warp, mask uint32) {
		d, a, b := p.outputRegister(o[0], pred), 32*p.inputRegister(o[1], classOf[A]()), 32*p.inputRegister(o[2], classOf[A]())
		return func(w *warp, mask uint32) {
			x, y := lanes[A](w, a), lanes[A](w, b)
			v := w.p[d] &^ mask
			for m := mask; m != 0; m &= m - 1 {
				i := bits.TrailingZeros32(m) & 31
				if f(x[i], y[i]) {
					v |= 1 << i
				}
			}
			w.p[d] = v
		}
	}
}

// choose selects one of two values by a predicate.
func choose[T register](p *parser, o []operand) func(w *warp, mask uint32) {
	d, a, b, c := 32*p.outputRegister(o[0], classOf[T]()), 32*p.inputRegister(o[1], classOf[T]()), 32*p.inputRegister(o[2], classOf[T]()), p.inputRegister(o[3], pred)
	return func(w *warp, mask uint32) {
		D, A, B, which := lanes[T](w, d), lanes[T](w, a), lanes[T](w, b), w.p[c]
		for m := mask; m != 0; m &= m - 1 {
			i := bits.TrailingZeros32(m) & 31
			if which>>i&1 != 0 {
				D[i] = A[i]
			} else {
				D[i] = B[i]
			}
		}
	}
}
