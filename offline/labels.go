package offline

import (
	"math"
	"sort"

	"github.com/eusn-stream/eusn-stream/internal/groups"
	"github.com/eusn-stream/eusn-stream/internal/track"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// labelRun is samples of one label, up to the next run's first.
type labelRun struct {
	from  int64
	label int
	group int
}

// follow records the changes of the label.
func (c *streamCutter) follow(p *chunk) {
	if n := len(c.runs); n > 1 {
		c.runs = append(c.runs[:0], c.runs[n-1])
	}
	for r, label := range p.labels {
		if n := len(c.runs); n == 0 || c.runs[n-1].label != label {
			c.runs = append(c.runs, labelRun{c.at + int64(r), label, c.newGroup()})
		}
	}
}

// followSites records the changes of the group.
func (c *streamCutter) followSites(p *chunk) {
	if c.sites == nil {
		return
	}
	if n := len(c.site); n > 1 {
		c.site = append(c.site[:0], c.site[n-1])
	}
	_ = eachSite(c.sites, p, func(at, site int) error { // eachSite has no errors of its own
		if n := len(c.site); n == 0 || c.site[n-1].label != site {
			c.site = append(c.site, labelRun{from: c.at + int64(at), label: site})
		}
		return nil
	})
}

// place puts a point of a stream into the group of all its samples, and counts points without such a group.
func (c *streamCutter) place(p *point, stream string) {
	p.site = groups.None
	if c.sites == nil {
		return
	}
	i := sort.Search(len(c.site), func(i int) bool { return c.site[i].from >= p.to }) - 1 // holds sample to-1
	run := c.site[i]
	if p.site = run.label; run.from > p.from {
		p.site = groups.None
	}
	switch {
	case p.label < 0 || p.site != groups.None || p.early != (c.Policy.Kind == reservoir.Endless):
	case run.from > p.from:
		c.across++
	default:
		if c.strays++; c.strays == 1 {
			c.stray = stream
		}
	}
}

// lastSample describes the last sample of a point, or of the chunks so far.
type lastSample struct {
	numbers bool    // a target exists
	number  float64 // value in the target's column; NaN if unknown, or without a target
	seq     *int64  // as the recording numbers it; nil: no recording
	part    archive.Split
}

// sampleAt describes a sample of a chunk.
func sampleAt(p *chunk, i int) lastSample {
	s := lastSample{numbers: p.numbers != nil, number: math.NaN(), part: p.part}
	if s.numbers {
		s.number = p.numbers[i]
	}
	if p.seqs != nil {
		seq := p.seqs[i] // a copy: the reader reuses the chunk
		s.seq = &seq
	}
	return s
}

// pass remembers the last sample of a chunk.
func (b *lastSample) pass(p *chunk) {
	if n := len(p.labels); n > 0 {
		*b = sampleAt(p, n-1)
	}
}

// set gives a point its last sample, with its number. Numbers of earlier samples are ignored: a number
// belongs to the time of the prediction.
func (b *lastSample) set(p *point, samples *chunk, u *track.Piece) {
	p.last = *b
	if u.To > 0 {
		p.last = sampleAt(samples, int(u.To)-1)
	}
	if !p.last.numbers {
		return
	}
	if p.label, p.mixed = 0, false; p.last.number != p.last.number {
		p.label = -1
	}
}
