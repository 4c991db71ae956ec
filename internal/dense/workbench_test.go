package dense

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// useTile selects the active tile; undo restores the previous tile.
func useTile(t *tile) (undo func()) {
	old := active
	active = t
	return func() { active = old }
}

// eachTile runs a test with every tile of this machine, and fails for a tile that
// EUSN_REQUIRE names and the machine lacks.
func eachTile(t *testing.T, test func(t *testing.T)) {
	found := map[string]bool{}
	for _, s := range tiles() {
		found[s.name] = true
		t.Run(s.name, func(t *testing.T) {
			defer useTile(s)()
			test(t)
		})
	}
	for _, name := range []string{"avx512", "avx2"} {
		if !found[name] && parts.Required(name) {
			t.Errorf("this machine or build has no %s, and EUSN_REQUIRE names it", name)
		}
	}
}

// workbench holds matrices at the beginning or the end of accessible memory. The memory
// between their rows must neither be read (it is NaN) nor written.
type workbench struct {
	rng      *rand.Rand
	atEnd    bool
	place    [3][]float64
	features []float32
}

func newWorkbench(t *testing.T, atEnd bool) *workbench {
	const room = 500 * 80
	w := &workbench{rng: rand.New(rand.NewPCG(8, 8)), atEnd: atEnd, features: guarded[float32](t, room)}
	for i := range w.place {
		w.place[i] = guarded[float64](t, room)
	}
	return w
}

// take returns n values of a block, at its beginning or its end.
func take[T any](w *workbench, v []T, n int) []T {
	if w.atEnd {
		return v[len(v)-n:]
	}
	return v[:n]
}

func (w *workbench) matrix(place, rows, cols int) Matrix {
	m := Matrix{Rows: rows, Cols: cols, Stride: cols + rows%3}
	m.Data = take(w, w.place[place], (rows-1)*m.Stride+cols)
	for i := range m.Data {
		m.Data[i] = math.NaN()
	}
	for i := range rows {
		for j := range m.Row(i) {
			m.Row(i)[j] = w.rng.NormFloat64()
		}
	}
	return m
}

func (w *workbench) samples(rows, cols int) Samples {
	s := randomSamples(w.rng, rows, cols)
	x := take(w, w.features, len(s.X))
	copy(x, s.X)
	for i := range x {
		if i%s.Stride >= cols {
			x[i] = float32(math.NaN())
		}
	}
	s.X = x
	return s
}

// randomSamples draws float32 features with a mean, read as centered and scaled, with a
// stride larger than a row.
func randomSamples(rng *rand.Rand, rows, cols int) Samples {
	s := Samples{Rows: rows, Cols: cols, Stride: cols + 3, Center: make([]float64, cols), Scale: make([]float64, cols)}
	s.X = make([]float32, (rows-1)*s.Stride+cols)
	for i := range s.X {
		s.X[i] = float32(rng.NormFloat64())
	}
	for j := range cols {
		s.Center[j], s.Scale[j] = rng.NormFloat64(), 1+rng.Float64()
	}
	return s
}

func (s Samples) at(i, j int) float64 {
	return (float64(s.X[i*s.Stride+j]) - s.Center[j]) * s.Scale[j]
}

func (m Matrix) at(i, j int) float64 { return m.Row(i)[j] }

func flip(at func(i, j int) float64) func(i, j int) float64 {
	return func(i, j int) float64 { return at(j, i) }
}

// copyElements copies an operand's elements, which checkProduct reads many times.
func copyElements(rows, cols int, at func(i, j int) float64) Matrix {
	m := New(rows, cols)
	for i := range rows {
		for j := range m.Row(i) {
			m.Row(i)[j] = at(i, j)
		}
	}
	return m
}
