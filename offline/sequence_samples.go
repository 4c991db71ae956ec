package offline

import (
	"slices"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// keep appends the chunk's samples to the buffer, with what is missing filled
// in as the stage does under hold: by the value before it of its channel. A
// sequence does not see the one before it, so at its beginning the mean
// takes its place; windows overlap, so there only the stream's first sample has
// none before it.
func (c *streamCutter) keep(p *chunk) {
	k := len(c.mean)
	if k == 0 {
		return
	}
	c.holes = c.holes[:0]
	next := 0 // cut that has not begun
	for r := range p.labels {
		begins := false
		for ; next < len(c.cuts) && int(c.cuts[next].From) <= r; next++ {
			u := c.cuts[next]
			begins = begins || u.Reset && int(u.From) == r && u.To > u.From && c.policy.Kind != reservoir.Window
		}
		sample, hole := p.values[r*k:(r+1)*k], false
		at := len(c.buffer)
		c.buffer = append(c.buffer, sample...)
		for i, x := range sample {
			if x == x {
				continue
			}
			if begins && !hole {
				c.before = nil
			}
			hole = true
			c.missing++
			if c.before == nil {
				c.buffer[at+i] = c.mean[i]
			} else {
				c.buffer[at+i] = c.before[i]
			}
		}
		if hole {
			c.holes = append(c.holes, int32(r))
		}
		c.before = append(c.before[:0], c.buffer[at:]...)
	}
}

// transform runs what keep has added to the buffer, from kept on, through the
// front end, and returns how many rows come out. before is the sequencer's count
// before the chunk.
func (c *streamCutter) transform(p *chunk, before int64, kept int) (rows int) {
	k := len(c.mean)
	if k == 0 || c.front == nil {
		return c.front.Place(before, c.cuts, len(p.labels))
	}
	rows = c.front.Run(c.state, before, c.cuts, c.buffer[kept:])
	c.buffer = c.buffer[:kept+rows*k]
	if c.rows != nil {
		out := &chunk{stream: p.stream, values: c.buffer[kept:], last: p.last}
		for r, label := range p.labels {
			if c.front.At(int32(r)+1) > c.front.At(int32(r)) {
				out.labels = append(out.labels, label)
			}
		}
		c.rows(out)
	}
	return rows
}

// trim forgets the samples that no open sequence needs.
func (c *streamCutter) trim() {
	base := c.row
	for _, s := range c.open {
		if s != nil {
			base = min(base, s.row)
		}
	}
	if k := int64(len(c.mean)); k > 0 && base > c.base {
		c.buffer = slices.Delete(c.buffer, 0, int((base-c.base)*k))
	}
	c.base = base
}
