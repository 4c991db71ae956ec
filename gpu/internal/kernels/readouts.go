package kernels

import (
	"fmt"
	"math"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/readout"
)

// maxTiles is the limit of every device for a grid's second dimension.
const maxTiles = 1<<16 - 1

// Readouts makes the following launches write the scores of these readouts and
// returns the words to upload to Buffers.Readouts before, none without readouts.
// An error changes nothing.
func (p *Program) Readouts(readouts []*readout.Linear) ([]uint32, error) {
	width, err := engine.CheckReadouts(p.net, readouts)
	if err != nil {
		return nil, err
	}
	n, tiles, size := int(p.shape.Features), 0, 0
	for _, h := range readouts {
		k := blocks(h.Columns(), scoreColumns)
		tiles += k
		size += 2*n + 3 + k*(4+scoreColumns*(1+n))
		if size > maxImage || tiles > maxTiles {
			return nil, fmt.Errorf("kernels: the readouts take more than %d words or %d columns", maxImage, maxTiles*scoreColumns)
		}
	}
	table := make([]tile, 0, tiles)
	image := make([]uint32, 4*tiles, size)
	inf := float32(math.Inf(1)) // limits nothing
	first := 0                  // score column of the readout
	for _, h := range readouts {
		center := len(image)
		for _, c := range h.Center {
			image = append(image, math.Float32bits(c))
		}
		for i := range n {
			limit := inf
			if h.Limit != nil {
				limit = h.Limit[i]
			}
			image = append(image, math.Float32bits(limit))
		}
		for len(image)%4 != 0 { // weight rows are read by four
			image = append(image, 0)
		}
		for column := 0; column < h.Columns(); column += scoreColumns {
			columns := min(scoreColumns, h.Columns()-column)
			table = append(table, tile{uint32(center), uint32(len(image)), uint32(columns), uint32(first + column)})
			row := func(value func(column int) float32) {
				for c := range scoreColumns {
					w := uint32(0)
					if c < columns {
						w = math.Float32bits(value(column + c))
					}
					image = append(image, w)
				}
			}
			row(func(c int) float32 { return h.Intercept[c] })
			for f := range n {
				row(func(c int) float32 { return h.Weights[c*n+f] })
			}
		}
		first += h.Columns()
	}
	for i, t := range table {
		copy(image[4*i:], []uint32{t.Center, t.Weights, t.Columns, t.First})
	}
	p.tiles, p.shape.ScoreWidth = tiles, uint32(width)
	return image, nil
}
