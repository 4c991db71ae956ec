package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/eusn-stream/eusn-stream/internal/canon"
)

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
		// A ring's kernel and a tile's may have separate tanh code, and a tile may
		// have another tanh between the products of the next sample, if there are
		// enough products: here further inputs, which are zero, and a second sample
		// of zeros.
		for _, c := range []struct {
			ring            bool
			inputs, samples int
		}{{true, 1, 1}, {false, 1, 1}, {false, weaveKits, 2}} {
			ring, n := c.ring, c.inputs
			weights := make([]float32, n)
			weights[0] = 1
			m := s.Pack(1, n, []float32{float32(math.Copysign(0, -1))}, weights, []float32{0}, ring)
			lanes := s.Wide.Lanes
			cur, next, pending := Aligned((n+1)*lanes), Aligned((n+1)*lanes), Aligned(2*PendingRoom)
			x, choose := Aligned(c.samples*n*lanes), make([]int, n)
			for i := range choose {
				choose[i] = 4 * lanes * i
			}
			for at := 0; at < len(args); at += lanes {
				clear(cur)
				copy(x, args[at:at+lanes])
				a := &Steps{Consts: Consts(), Cur: &cur[0], CurState: &cur[n*lanes], Next: &next[0], NextState: &next[n*lanes],
					Inputs: Address(x), InputStep: 4 * n * lanes, Select: &choose[0], Selected: n, Depth: n + 1,
					Pending: &pending[0], Spare: &pending[PendingRoom], Gain: 1, Keep: 1, Count: c.samples, Units: 1}
				s.Use(a, &m, lanes)
				state := next
				if ring {
					s.Wide.Ring(a)
				} else {
					s.Wide.Steps(a)
				}
				if ring || c.samples == 2 {
					state = cur
				}
				for l := range lanes {
					// -0 + 0*h and 0 + tanh lose the sign of zero, as intended.
					x, got := args[at+l], state[n*lanes+l]
					want := canon.FMA(1, canon.Tanh(canon.FMA(0, 0, canon.FMA(1, x, float32(math.Copysign(0, -1))))), 0)
					if math.Float32bits(got) != math.Float32bits(want) && (got == got || want == want) {
						t.Fatalf("ring %v, %d inputs: tanh of %x is %x, want %x", ring, n, x, got, want)
					}
				}
			}
		}
	})
}

// TestTanhNearOne compares the tanh of every number from 6.375 to the saturation,
// with one of the signs. A kernel may omit the limit to 1; a smaller number's
// tanh is further away from 1 than its error (canon.TanhError).
func TestTanhNearOne(t *testing.T) {
	for _, s := range Levels() {
		stride := uint32(1)
		if testing.Short() || s.kits == nil && !s.Wide.woven { // an emulator; or a kernel with the limit
			stride = 101
		}
		n, samples := 1, 1
		if s.Wide.woven { // as in TestTanh
			n, samples = weaveKits, 2
		}
		weights := make([]float32, n)
		weights[0] = 1
		m := s.Pack(1, n, []float32{float32(math.Copysign(0, -1))}, weights, []float32{0}, false)
		lanes := s.Wide.Lanes
		cur, next, pending := Aligned((n+1)*lanes), Aligned((n+1)*lanes), Aligned(2*PendingRoom)
		x, choose := Aligned(samples*n*lanes), make([]int, n)
		for i := range choose {
			choose[i] = 4 * lanes * i
		}
		a := &Steps{Consts: Consts(), InputStep: 4 * n * lanes, Select: &choose[0], Selected: n, Depth: n + 1,
			Pending: &pending[0], Spare: &pending[PendingRoom], Gain: 1, Keep: 1, Units: 1}
		s.Use(a, &m, lanes)
		for bits := math.Float32bits(6.375); bits <= math.Float32bits(canon.Saturation); {
			for l := range lanes {
				x[l] = math.Float32frombits(bits | bits<<31)
				bits += stride
			}
			clear(cur)
			clear(next)
			a.Cur, a.CurState, a.Next, a.NextState = &cur[0], &cur[n*lanes], &next[0], &next[n*lanes]
			a.Inputs, a.Count = Address(x), samples
			s.Wide.Steps(a)
			for l, got := range unsafe.Slice(a.CurState, lanes) {
				if want := canon.Tanh(x[l]); got != want {
					t.Fatalf("%s: tanh of %x is %x, want %x", s.Name, x[l], got, want)
				}
			}
		}
	}
}

// TestMaxOfZeros: of two zeros that differ in sign the older zero stays the
// largest, as in Go. The unit has only the input's weight.
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
