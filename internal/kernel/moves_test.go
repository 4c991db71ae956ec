package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestMoves: every word arrives, and nothing beyond the last is touched.
func TestMoves(t *testing.T) {
	eachLevel(t, func(t *testing.T, s *Set) {
		rng := rand.New(rand.NewPCG(1, 1))
		for n := 1; n <= 3*s.Vector+1; n++ {
			const extra = 3 // words of a row before the moved part
			stride := s.Vector * (1 + n%2)
			rows, back := make([]*uint32, s.Vector), make([]*uint32, s.Vector)
			words, returned := make([][]uint32, s.Vector), make([][]uint32, s.Vector)
			for l := range rows {
				words[l], returned[l] = guarded[uint32](t, extra+n, guardAtEnd), guarded[uint32](t, extra+n, guardAtEnd)
				for i := range words[l] {
					words[l][i] = rng.Uint32()
				}
				rows[l], back[l] = &words[l][0], &returned[l][0]
			}
			tile := floats(t, (n-1)*stride+s.Vector)
			s.Load(&tile[0], 4*stride, &rows[0], 4*extra, n)
			s.Store(&tile[0], 4*stride, &back[0], 4*extra, n)
			for l := range rows {
				for i := range n {
					if got := math.Float32bits(tile[i*stride+l]); got != words[l][extra+i] {
						t.Fatalf("Load of %d: word %d of row %d is %#x, want %#x", n, i, l, got, words[l][extra+i])
					}
					if returned[l][extra+i] != words[l][extra+i] {
						t.Fatalf("Store of %d: word %d of row %d did not come back", n, i, l)
					}
				}
			}
			vectors := (n + s.Vector - 1) / s.Vector
			lanes := floats(t, (vectors-1)*stride+s.Vector)
			row, again := guarded[uint32](t, n, guardAtEnd), guarded[uint32](t, n, guardAtEnd)
			for i := range row {
				row[i] = rng.Uint32()
			}
			s.Spread(&lanes[0], 4*stride, &row[0], n)
			s.Collect(&lanes[0], 4*stride, &again[0], n)
			for i := range vectors * s.Vector {
				got, want := math.Float32bits(lanes[i/s.Vector*stride+i%s.Vector]), uint32(0)
				if i < n {
					want = row[i]
				}
				if got != want || i < n && again[i] != want {
					t.Fatalf("Spread of %d: word %d is %#x, want %#x there and back", n, i, got, want)
				}
			}
		}
	})
}
