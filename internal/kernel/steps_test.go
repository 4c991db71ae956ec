package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/canon"
)

// TestSteps compares every kernel shape with the canonical step, in buffers
// that end at the end of memory. Under -short (an emulator) the reference takes
// too long for the most units of many streams.
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
						checkSteps(t, s, lanes, units, inputs, ring, allSums)
					}
				}
			}
		}
	})
}

// TestEveryWay uses each path through the kernels with separate code for the
// number of value rows between two pending vectors, in a sample's first row tile
// and, if such a network exists, in a later row tile.
func TestEveryWay(t *testing.T) {
	type way struct {
		rows  int
		kits  int64
		first bool
	}
	eachLevel(t, func(t *testing.T, s *Set) {
		for _, shape := range []*Shape{&s.Wide, &s.Narrow} {
			gone := map[way]bool{}
			sizes, kits := []int{s.Rows - 1, s.Rows, 2*s.Rows - 2, 2 * s.Rows}, s.kits
			least, most := s.Rows-1, int64(math.MaxInt64)
			if shape.woven { // code for every size of a row tile, a loop for more value rows
				sizes, kits, least, most = ints(1, 2*s.Rows), []int{0, weaveKits, weaveKits + 1}, 1, weaveKits+1
			}
			for _, units := range sizes {
				for inputs := 1; inputs <= 120 && kits != nil; inputs++ {
					fresh := false
					for i, tile := range s.tiles(split(units, s.Rows), inputs+units, shape.Lanes) {
						w := way{tile.rows, min(tile.kits, most), i == 0}
						fresh = fresh || tile.rows > 0 && !gone[w]
						gone[w] = true
					}
					if fresh {
						checkSteps(t, s, shape.Lanes, units, inputs, false, allSums)
					}
				}
			}
			for _, k := range kits {
				for rows := least; rows <= s.Rows; rows++ {
					if !gone[way{rows, int64(k), true}] && !gone[way{rows, int64(k), false}] {
						t.Errorf("%d streams: no network has %d value rows between, in row tiles of %d", shape.Lanes, k, rows)
					}
				}
			}
		}
	})
}

func ints(lo, hi int) (list []int) {
	for i := lo; i <= hi; i++ {
		list = append(list, i)
	}
	return list
}

// TestSomeSums: sums not requested stay unchanged.
func TestSomeSums(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		for _, lanes := range []int{1, s.Narrow.Lanes, s.Wide.Lanes} {
			for flags := range allSums {
				checkSteps(t, s, lanes, 12, 1, false, flags)
				if lanes > 1 || s.RingSingle != nil {
					checkSteps(t, s, lanes, 12, 1, true, flags)
				}
			}
		}
	})
}

const allSums = Sum | Positive | Max | Square

// problem is one member's weights and values, and the results of a kernel.
type problem struct {
	units, inputs, lanes           int
	bias, input, recurrent         []float32
	keep, gain                     float32
	x, h                           []float32 // samples x inputs x lanes, units x lanes
	sum, positive, largest, square []float32
	flags                          int
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
			if p.flags&Sum != 0 {
				p.sum[at] += next[at]
			}
			if p.flags&Positive != 0 && z > 0 {
				p.positive[at]++
			}
			if p.flags&Max != 0 && v > p.largest[at] {
				p.largest[at] = v
			}
			if p.flags&Square != 0 {
				p.square[at] = canon.FMA(next[at], next[at], p.square[at])
			}
		}
	}
	p.h = next
}

func checkSteps(t *testing.T, s *Set, lanes, units, inputs int, ring bool, flags int) {
	t.Helper()
	const samples = 3
	rng := rand.New(rand.NewPCG(uint64(units), uint64(lanes)))
	make32 := func(n int) []float32 { return random(rng, make([]float32, n)) }
	p := &problem{units: units, inputs: inputs, lanes: lanes, bias: make32(units), input: make32(units * inputs), keep: 1, gain: .3,
		x: make32(samples * inputs * lanes), h: make32(units * lanes),
		sum: make32(units * lanes), positive: make([]float32, units*lanes), largest: make([]float32, units*lanes), square: make32(units * lanes), flags: flags}
	recurrent := units * units
	if ring {
		recurrent = units
	}
	p.recurrent = make32(recurrent)
	if units%2 == 0 {
		p.keep, p.gain = .7, .25
	}

	// Buffers of exactly the size the documentation of Steps names.
	width, vectors := lanes, units // of a state row in lanes, and number of state rows
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
		Pending: &pending[0], Spare: &spare[0], Sums: &acc[0], Flags: flags, Gain: p.gain, Keep: p.keep, Count: samples, Units: units,
		Ahead: Address(x)}
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
	if shape != nil && shape.woven && a.Ahead-Address(x) != uintptr(4*len(x)) {
		t.Errorf("%d units, %d inputs, %d lanes, ring %v: %d bytes asked for ahead, want those of the samples taken, %d",
			units, inputs, lanes, ring, a.Ahead-Address(x), 4*len(x))
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
