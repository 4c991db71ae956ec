package dense

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A packed factor gives the bits of an unpacked one, in products of any number
// of rows, and can be filled again with another size.
func TestPacked(t *testing.T) {
	eachTile(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 4))
		random := func(rows, cols int) Matrix {
			m := New(rows, cols+3).Sub(0, 1, rows, cols) // a view: rows apart
			for i := range rows {
				for j := range m.Row(i) {
					m.Row(i)[j] = rng.NormFloat64()
				}
			}
			return m
		}
		var p Packed
		for _, s := range [][3]int{{32, 100, 300}, {1, 1, 1}, {7, 2*Block + 5, 25}, {3, Block, 24}, {33, 13, 70}} {
			rows, depth, cols := s[0], s[1], s[2]
			for _, trans := range []bool{false, true} {
				a, b := random(rows, depth), random(depth, cols)
				if trans {
					b = random(cols, depth)
				}
				p.Pack(b, trans)
				for _, n := range []int{rows, 1} { // used again
					got := random(n, cols)
					want := got.Clone()
					MultiplyPacked(got, a.Sub(0, 0, n, depth), &p)
					Multiply(want, 1, a.Sub(0, 0, n, depth), false, b, trans)
					for i := range n {
						if !slices.Equal(got.Row(i), want.Row(i)) {
							t.Fatalf("%v, transposed %v: row %d of %d differs", s, trans, i, n)
						}
					}
				}
			}
		}
	})
}
