package dense

// Packed is the right factor of many products, packed once: packing takes as
// long as a product of few rows. The zero value is to be filled by Pack.
type Packed struct {
	rows, cols int
	memory     []float64
	panels     []float64 // of each Block of rows, one after the other
}

// Pack fills p with op(b), in its old memory if that suffices.
func (p *Packed) Pack(b Matrix, trans bool) {
	p.rows, p.cols = b.Rows, b.Cols
	var from operand = byColumn{b}
	if trans {
		p.rows, p.cols = b.Cols, b.Rows
		from = byRow{b}
	}
	width := active.width()
	panels := ceil(p.cols, width)
	p.panels = aligned(&p.memory, panels*width*p.rows)
	for k0 := 0; k0 < p.rows; k0 += Block {
		block, depth := p.block(k0), min(Block, p.rows-k0)
		for i := range panels {
			j := i * width
			from.pack(block[j*depth:(j+width)*depth], width, j, min(width, p.cols-j), k0)
		}
	}
}

// block is what begins at row k0.
func (p *Packed) block(k0 int) []float64 {
	width := active.width()
	return p.panels[ceil(p.cols, width)*width*k0:]
}

// pack is what an operand does; this one is packed.
func (*Packed) pack([]float64, int, int, int, int) { panic("dense: packed twice") }

// MultiplyPacked computes c += a * b, with the bits of Multiply.
func MultiplyPacked(c, a Matrix, b *Packed) { multiply(c, 1, byRow{a}, b, b.rows) }
