package offline

import (
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/sequence"
	"github.com/eusn-stream/eusn-stream/internal/track"
)

// feed moves the track of the stream on by a chunk. If samples are kept, the network's inputs are appended to the
// buffer.
func (c *streamCutter) feed(p *chunk) (pieces []track.Piece, rows int) {
	s := track.Samples{Samples: sequence.Samples{Count: len(p.labels), Times: p.times, Ends: p.ends}, Flags: p.flags}
	if !c.keeps {
		return c.Feed(&c.track, s)
	}
	kept := len(c.buffer)
	c.buffer = append(c.buffer, p.values...)
	s.X = c.buffer[kept:]
	c.holes = track.AppendMissing(c.holes[:0], s.X)
	c.missing += int64(len(c.holes))
	s.Missing = c.holes
	pieces, rows = c.Feed(&c.track, s)
	c.buffer = c.buffer[:kept+rows*len(c.channels)]
	if c.rows != nil {
		out := &chunk{stream: p.stream, values: c.buffer[kept:], counts: p.counts, last: p.last}
		for r, label := range p.labels {
			if c.RowsBefore(r+1) > c.RowsBefore(r) {
				out.labels = append(out.labels, label)
			}
		}
		c.rows(out)
	}
	return pieces, rows
}

// trim drops the samples that no open sequence needs.
func (c *streamCutter) trim() {
	base := c.row
	for _, s := range c.open {
		if s != nil {
			base = min(base, s.row)
		}
	}
	if k := int64(len(c.channels)); c.keeps && base > c.base {
		c.buffer = slices.Delete(c.buffer, 0, int((base-c.base)*k))
	}
	c.base = base
}
