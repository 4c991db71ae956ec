package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/eusn-stream/eusn-stream/reservoir/canon"
)

// TestSteps holds every kernel shape to the canonical step, in buffers that
// end where memory does. Under -short (an emulator) the reference takes too
// long for the most units of many streams.
func TestSteps(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		for _, lanes := range []int{1, s.Narrow.Lanes, s.Wide.Lanes} {
			for _, units := range []int{1, 2, 7, 11, 12, 13, 24, 25, 37, 50, 100, 130, 230} {
				if testing.Short() && lanes > 1 && units*lanes > 130*16 {
					continue
				}
				for _, inputs := range []int{1, 3} {
					for _, ring := range []bool{false, true} {
						if ring && lanes == 1 && s.RingSingle == nil {
							continue
						}
						checkSteps(t, s, lanes, units, inputs, ring)
					}
				}
			}
		}
	})
}

// problem is one member's weights and values, and what a kernel leaves.
type problem struct {
	units, inputs, lanes           int
	bias, input, recurrent         []float32
	keep, gain                     float32
	x, h                           []float32 // samples x inputs x lanes, units x lanes
	sum, positive, largest, square []float32
}

// step is the canonical step of sample t, straight from the documentation.
func (p *problem) step(t int, ring bool) {
	next := make([]float32, len(p.h))
	for i := range p.units {
		for l := range p.lanes {
			z := p.bias[i]
			for c := range p.inputs {
				z = canon.FMA(p.input[i*p.inputs+c], p.x[(t*p.inputs+c)*p.lanes+l], z)
			}
			if ring {
				z = canon.FMA(p.recurrent[i], p.h[(i+p.units-1)%p.units*p.lanes+l], z)
			} else {
				for k := range p.units {
					z = canon.FMA(p.recurrent[i*p.units+k], p.h[k*p.lanes+l], z)
				}
			}
			at := i*p.lanes + l
			v := canon.Tanh(z)
			next[at] = canon.FMA(p.gain, v, p.keep*p.h[at])
			p.sum[at] += next[at]
			if z > 0 {
				p.positive[at]++
			}
			if v > p.largest[at] {
				p.largest[at] = v
			}
			p.square[at] = canon.FMA(next[at], next[at], p.square[at])
		}
	}
	p.h = next
}

func checkSteps(t *testing.T, s *Set, lanes, units, inputs int, ring bool) {
	t.Helper()
	const samples = 3
	rng := rand.New(rand.NewPCG(uint64(units), uint64(lanes)))
	make32 := func(n int) []float32 { return random(rng, make([]float32, n)) }
	p := &problem{units: units, inputs: inputs, lanes: lanes, bias: make32(units), input: make32(units * inputs), keep: 1, gain: .3,
		x: make32(samples * inputs * lanes), h: make32(units * lanes),
		sum: make32(units * lanes), positive: make([]float32, units*lanes), largest: make([]float32, units*lanes), square: make32(units * lanes)}
	recurrent := units * units
	if ring {
		recurrent = units
	}
	p.recurrent = make32(recurrent)
	if units%2 == 0 {
		p.keep = .7
	}

	// Buffers of exactly the size the documentation of Steps names.
	width, vectors := lanes, units // of a state row in lanes, and how many there are
	if lanes == 1 {
		width, vectors = s.Vector, (units+s.Vector-1)/s.Vector
	}
	place := func(i, l int) int { return i*lanes + l } // of unit i, lane l in the states
	sums := func(i, l, kind int) int {
		at := place(i, l)
		return at/s.Vector*s.Vector*Kinds + kind*s.Vector + at%s.Vector
	}
	cur, next := floats(t, inputs+vectors*width), floats(t, inputs+vectors*width)
	first := inputs
	if lanes > 1 {
		cur, next = floats(t, (inputs+units)*lanes), floats(t, (inputs+units)*lanes)
		first = inputs * lanes
	}
	acc := floats(t, Kinds*vectors*width)
	pending, spare := floats(t, PendingRoom), floats(t, PendingRoom)
	x := floats(t, len(p.x))
	copy(x, p.x)
	for i := range units {
		for l := range lanes {
			cur[first+place(i, l)] = p.h[i*lanes+l]
			for kind, v := range [][]float32{p.sum, p.positive, p.largest, p.square} {
				acc[sums(i, l, kind)] = v[i*lanes+l]
			}
		}
	}
	member := s.Pack(units, inputs, p.bias, p.input, p.recurrent, ring)
	for _, w := range []*[]float32{&member.weights, &member.units} {
		if len(*w) > 0 {
			g := floats(t, len(*w))
			copy(g, *w)
			*w = g
		}
	}
	choose := guarded[int](t, inputs, guardAtEnd)
	for i := range choose {
		choose[i] = 4 * lanes * i
	}
	a := &Steps{Consts: Consts(), Cur: &cur[0], Next: &next[0], CurState: &cur[first], NextState: &next[first],
		Inputs: Address(x), InputStep: 4 * inputs * lanes, Select: &choose[0], Selected: inputs, Depth: inputs + units,
		Pending: &pending[0], Spare: &spare[0], Sums: &acc[0], Flags: Sum | Positive | Max | Square, Gain: p.gain, Keep: p.keep, Count: samples, Units: units}
	if p.keep != 1 {
		a.Flags |= KeepNot1
	}
	s.Use(a, &member, lanes)
	shape := map[int]*Shape{s.Wide.Lanes: &s.Wide, s.Narrow.Lanes: &s.Narrow}[lanes]
	switch {
	case lanes == 1 && ring:
		s.RingSingle(a)
	case lanes == 1:
		s.Single(a)
	case ring:
		shape.Ring(a)
	default:
		shape.Steps(a)
	}
	for k := range samples {
		p.step(k, ring)
	}
	got := cur
	if a.CurState != &cur[first] {
		got = next
	}
	what := fmt.Sprintf("%d units, %d inputs, %d lanes, ring %v", units, inputs, lanes, ring)
	for i := range units {
		for l := range lanes {
			at := i*lanes + l
			same(t, what, "state", i, l, got[first+place(i, l)], p.h[at])
			same(t, what, "sum", i, l, acc[sums(i, l, 0)], p.sum[at])
			same(t, what, "positive", i, l, float32(math.Float32bits(acc[sums(i, l, 1)])), p.positive[at])
			same(t, what, "max", i, l, acc[sums(i, l, 2)], p.largest[at])
			same(t, what, "square", i, l, acc[sums(i, l, 3)], p.square[at])
		}
	}
}

// TestTanh: the kernels' tanh is canon.Tanh, specials included. A unit with no
// weights but the input's has its argument as tanh argument.
func TestTanh(t *testing.T) {
	inf := float32(math.Inf(1))
	args := []float32{0, float32(math.Copysign(0, -1)), 1e-45, -1e-38, 1e-20, canon.Saturation, -canon.Saturation, 9.0156245, 20, math.MaxFloat32, inf, -inf, float32(math.NaN()), math.Float32frombits(math.MaxUint32)}
	rng := rand.New(rand.NewPCG(2, 2))
	for len(args)%64 != 0 || len(args) < 64*1000 {
		args = append(args, math.Float32frombits(rng.Uint32()&0x807fffff|uint32(100+rng.IntN(33))<<23))
	}
	eachLevel(t, func(t *testing.T, s *Set) {
		// A ring's kernel and a tile's may have a tanh each.
		for _, ring := range []bool{true, false} {
			m := s.Pack(1, 1, []float32{float32(math.Copysign(0, -1))}, []float32{1}, []float32{0}, ring)
			lanes := s.Wide.Lanes
			cur, next, pending := Aligned(2*lanes), Aligned(2*lanes), Aligned(2*PendingRoom)
			choose := []int{0}
			for at := 0; at < len(args); at += lanes {
				clear(cur)
				a := &Steps{Consts: Consts(), Cur: &cur[0], CurState: &cur[lanes], Next: &next[0], NextState: &next[lanes],
					Inputs: Address(args[at:]), Select: &choose[0], Selected: 1, Depth: 2,
					Pending: &pending[0], Spare: &pending[PendingRoom], Gain: 1, Keep: 1, Count: 1, Units: 1}
				s.Use(a, &m, lanes)
				state := next
				if ring {
					s.Wide.Ring(a)
					state = cur
				} else {
					s.Wide.Steps(a)
				}
				for l := range lanes {
					// -0 + 0*h and 0 + tanh lose the sign of zero, as they should.
					x, got := args[at+l], state[lanes+l]
					want := canon.FMA(1, canon.Tanh(canon.FMA(0, 0, canon.FMA(1, x, float32(math.Copysign(0, -1))))), 0)
					if math.Float32bits(got) != math.Float32bits(want) && (got == got || want == want) {
						t.Fatalf("ring %v: tanh of %x is %x, want %x", ring, x, got, want)
					}
				}
			}
		}
	})
}

// TestTanhNearOne: so it is for every number from 6.375 to the saturation, with
// one of the signs. A kernel may leave out the limit to 1; a smaller number's
// tanh is further away from 1 than its error (canon.TanhError).
func TestTanhNearOne(t *testing.T) {
	for _, s := range Levels() {
		stride := uint32(1)
		if testing.Short() || s.kits == nil { // an emulator; or it has the limit
			stride = 101
		}
		m := s.Pack(1, 1, []float32{float32(math.Copysign(0, -1))}, []float32{1}, []float32{0}, false)
		lanes := s.Wide.Lanes
		cur, next, pending, x, choose := Aligned(2*lanes), Aligned(2*lanes), Aligned(2*PendingRoom), Aligned(lanes), []int{0}
		a := &Steps{Consts: Consts(), Cur: &cur[0], CurState: &cur[lanes], Next: &next[0], NextState: &next[lanes],
			Select: &choose[0], Selected: 1, Depth: 2, Pending: &pending[0], Spare: &pending[PendingRoom], Gain: 1, Keep: 1, Units: 1}
		s.Use(a, &m, lanes)
		for bits := math.Float32bits(6.375); bits <= math.Float32bits(canon.Saturation); {
			for l := range x {
				x[l] = math.Float32frombits(bits | bits<<31)
				bits += stride
			}
			clear(cur)
			clear(next)
			a.Inputs, a.Count = Address(x), 1
			s.Wide.Steps(a)
			for l, got := range unsafe.Slice(a.CurState, lanes) {
				if want := canon.Tanh(x[l]); got != want {
					t.Fatalf("%s: tanh of %x is %x, want %x", s.Name, x[l], got, want)
				}
			}
		}
	}
}

// TestMaxOfZeros: of two zeros that differ in sign the older one stays the
// largest, as in Go. A unit with no weights but the input's again.
func TestMaxOfZeros(t *testing.T) {
	zero, negative := float32(0), float32(math.Copysign(0, -1))
	eachLevel(t, func(t *testing.T, s *Set) {
		m := s.Pack(1, 1, []float32{negative}, []float32{1}, []float32{negative}, true)
		lanes := s.Wide.Lanes
		for _, c := range [][2]float32{{negative, zero}, {zero, negative}} {
			cur, pending, acc, x := Aligned(2*lanes), Aligned(2*PendingRoom), Aligned(Kinds*lanes), Aligned(lanes)
			place := func(l int) int { return (l/s.Vector*Kinds+2)*s.Vector + l%s.Vector }
			for l := range x {
				acc[place(l)], x[l] = c[0], c[1]
			}
			choose := []int{0}
			a := &Steps{Consts: Consts(), Cur: &cur[0], CurState: &cur[lanes], Inputs: Address(x), Select: &choose[0], Selected: 1, Depth: 2,
				Pending: &pending[0], Spare: &pending[PendingRoom], Sums: &acc[0], Flags: Max, Gain: 1, Keep: 1, Count: 1, Units: 1}
			s.Use(a, &m, lanes)
			s.Wide.Ring(a)
			for l := range x {
				same(t, fmt.Sprintf("%g after %g", c[1], c[0]), "max", 0, l, acc[place(l)], c[0])
			}
		}
	})
}
