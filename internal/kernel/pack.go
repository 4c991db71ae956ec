package kernel

import "unsafe"

// rowTile describes one row tile to the assembly. rows = 0 ends the list.
type rowTile struct {
	rows   int   // units; of Single vectors of units
	kits   int64 // value rows between two pending vectors (of a woven shape two units' vectors), 0: finish all pending first; of Single bytes to its weights
	rest   int64 // value rows after the last pending vector; with Set.kits the upper 32 bits count value rows before the first
	offset int   // bytes from unit 0 to the first unit's states
}

// Member is one member's weights in the layout of the step kernels.
type Member struct {
	weights      []float32
	wide, narrow []rowTile
	units        []float32 // for Single
	single       []rowTile
}

// Pack arranges the weights of a member: input is units x inputs and recurrent
// units x units, both row-major; for a ring recurrent has one weight per unit.
func (s *Set) Pack(units, inputs int, bias, input, recurrent []float32, ring bool) Member {
	if ring {
		m := Member{weights: packRing(units, inputs, bias, input, recurrent)}
		if s.RingSingle != nil {
			m.units = s.packRingSingle(units, inputs, bias, input, recurrent)
		}
		return m
	}
	var m Member
	sizes := split(units, s.Rows)
	w := Aligned(units * (1 + inputs + units))
	m.weights = w[:0]
	for at, first := 0, 0; at < len(sizes); at++ {
		rows := first + sizes[at]
		m.weights = append(m.weights, bias[first:rows]...)
		for c := range inputs {
			for i := first; i < rows; i++ {
				m.weights = append(m.weights, input[i*inputs+c])
			}
		}
		for k := range units {
			for i := first; i < rows; i++ {
				m.weights = append(m.weights, recurrent[i*units+k])
			}
		}
		first = rows
	}
	m.units, m.single = s.packSingle(units, inputs, bias, input, recurrent)
	m.wide = s.tiles(sizes, inputs+units, s.Wide.Lanes)
	m.narrow = s.tiles(sizes, inputs+units, s.Narrow.Lanes)
	return m
}

// Use points a to the member's weights for the kernels of the shape with the
// given lanes; 1 is Single.
func (s *Set) Use(a *Steps, m *Member, lanes int) {
	a.Weights = &m.weights[0]
	switch {
	case m.wide == nil: // a ring
		a.Tiles = nil
		if lanes == 1 {
			a.Weights = &m.units[0]
		}
	case lanes == s.Wide.Lanes:
		a.Tiles = &m.wide[0]
	case lanes == s.Narrow.Lanes:
		a.Tiles = &m.narrow[0]
	default:
		a.Weights, a.Tiles = &m.units[0], &m.single[0]
	}
}

// packSingle arranges weights for the units in the lanes: for each block of
// vectors the bias, then each value row's weights.
func (s *Set) packSingle(units, inputs int, bias, input, recurrent []float32) ([]float32, []rowTile) {
	vectors := (units + s.Vector - 1) / s.Vector
	w := Aligned(vectors * s.Vector * (1 + inputs + units))[:0]
	var list []rowTile
	first := 0 // vector
	for _, size := range split(vectors, s.blocks) {
		put := func(v []float32, stride, at int) {
			for i := first * s.Vector; i < (first+size)*s.Vector; i++ {
				if i < units {
					w = append(w, v[i*stride+at])
				} else {
					w = append(w, 0)
				}
			}
		}
		put(bias, 1, 0)
		for c := range inputs {
			put(input, inputs, c)
		}
		for k := range units {
			put(recurrent, units, k)
		}
		list = append(list, rowTile{rows: size, kits: int64(first * s.Vector * (1 + inputs + units) * 4), offset: first * s.Vector * 4})
		first += size
	}
	// And back, for kernels that reverse after every sample.
	const tileSize = int(unsafe.Sizeof(rowTile{}))
	n := len(list)
	list = append(list, rowTile{offset: tileSize})
	for i := range n {
		list = append(list, list[n-1-i])
	}
	return w, append(list, rowTile{offset: -(2*n + 1) * tileSize})
}

func packRing(units, inputs int, bias, input, recurrent []float32) []float32 {
	w := Aligned(units * (2 + inputs))[:0]
	for i := range units {
		w = append(w, bias[i])
		w = append(w, input[i*inputs:(i+1)*inputs]...)
		w = append(w, recurrent[i])
	}
	return w
}

// packRingSingle arranges a ring's weights for the units in the lanes: for each
// vector the bias, each input's weights, the recurrent weights.
func (s *Set) packRingSingle(units, inputs int, bias, input, recurrent []float32) []float32 {
	vectors := (units + s.Vector - 1) / s.Vector
	w := Aligned(vectors * s.Vector * (2 + inputs))
	for i := range units {
		block := w[i/s.Vector*s.Vector*(2+inputs)+i%s.Vector:]
		block[0] = bias[i]
		for c := range inputs {
			block[(1+c)*s.Vector] = input[i*inputs+c]
		}
		block[(1+inputs)*s.Vector] = recurrent[i]
	}
	return w
}

// split divides the units into as few row tiles as can be, of equal size but
// for one row.
func split(units, most int) []int {
	n := (units + most - 1) / most
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = (units*(i+1))/n - units*i/n
	}
	return sizes
}

// tiles plans the finishing of each row tile's pending vectors (of the previous
// row tile), spread over its value rows. The first row tile of a sample reads
// the last states made from its pending vectors, which must be done before.
func (s *Set) tiles(sizes []int, depth, lanes int) []rowTile {
	list := make([]rowTile, 0, len(sizes)+1)
	last := len(sizes) - 1
	first := 0
	for i, rows := range sizes {
		t := rowTile{rows: rows, offset: first * lanes * 4}
		before, room := last, depth
		if i > 0 {
			before = i - 1
		} else {
			room -= sizes[last]
		}
		waiting := sizes[before] * lanes / s.Vector
		woven := s.Wide.woven && lanes == s.Wide.Lanes
		if woven {
			waiting = sizes[before]
		}
		kits := room / waiting
		if woven && kits < weaveKits {
			kits = 0
		}
		if s.kits != nil {
			kits = s.between(kits, rows)
		}
		t.kits, t.rest = int64(kits), int64(depth-kits*waiting)
		if kits == 0 {
			t.rest = int64(depth)
		}
		if s.kits != nil && i > 0 {
			t.rest <<= 32 // the first vectors have only just been made
		}
		list = append(list, t)
		first += rows
	}
	return append(list, rowTile{})
}

// between is the most value rows, up to n, that the kernels have code for
// between two pending vectors of a row tile.
func (s *Set) between(n, rows int) int {
	most := 0
	if rows >= s.Rows-1 {
		for _, k := range s.kits {
			if k <= n {
				most = k
			}
		}
	}
	return most
}

// WholeVectors is room for n values and whole vectors.
func (s *Set) WholeVectors(n int) int { return (n + s.Vector - 1) / s.Vector * s.Vector }
