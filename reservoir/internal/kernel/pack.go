package kernel

// rowTile describes one row tile to the assembly. rows = 0 ends the list.
type rowTile struct {
	rows   int // units
	kits   int // value rows between two pending vectors; 0: finish all of them first
	rest   int // value rows after the last of them
	offset int // bytes from unit 0 to the first unit's states
}

// Member is one member's weights as the step kernels read them.
type Member struct {
	Weights      []float32
	wide, narrow []rowTile
}

// Pack arranges the weights of a member: input is units x inputs and recurrent
// units x units, both row-major; for a ring recurrent has one weight per unit.
func (s *Set) Pack(units, inputs int, bias, input, recurrent []float32, ring bool) Member {
	if ring {
		return Member{Weights: packRing(units, inputs, bias, input, recurrent)}
	}
	var m Member
	sizes := split(units, s.Rows)
	w := Aligned(units * (1 + inputs + units))
	m.Weights = w[:0]
	for at, first := 0, 0; at < len(sizes); at++ {
		rows := first + sizes[at]
		m.Weights = append(m.Weights, bias[first:rows]...)
		for c := range inputs {
			for i := first; i < rows; i++ {
				m.Weights = append(m.Weights, input[i*inputs+c])
			}
		}
		for k := range units {
			for i := first; i < rows; i++ {
				m.Weights = append(m.Weights, recurrent[i*units+k])
			}
		}
		first = rows
	}
	m.wide = tiles(sizes, inputs+units, s.Wide.Lanes, s.Vector)
	m.narrow = tiles(sizes, inputs+units, s.Narrow.Lanes, s.Vector)
	return m
}

// Tiles is the value of Steps.Tiles for a tile of so many lanes, a multiple of
// s.Vector.
func (m *Member) Tiles(wide bool) *rowTile {
	switch {
	case m.wide == nil:
		return nil
	case wide:
		return &m.wide[0]
	}
	return &m.narrow[0]
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

// tiles plans how the pending vectors of each row tile (those of the row tile
// before it) are spread over its value rows. The first row tile of a sample
// reads the last states its pending vectors make, so they must be done before.
func tiles(sizes []int, depth, lanes, vector int) []rowTile {
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
		waiting := sizes[before] * lanes / vector
		t.kits = room / waiting
		t.rest = depth - t.kits*waiting
		list = append(list, t)
		first += rows
	}
	return append(list, rowTile{})
}
