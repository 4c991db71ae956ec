package offline

import (
	"math"
	"sort"

	"github.com/eusn-stream/eusn-stream/internal/groups"
	"github.com/eusn-stream/eusn-stream/internal/track"
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

// numberBehind is the number of the last sample of the chunks before.
type numberBehind struct {
	known bool // a target exists
	last  float64
}

// pass remembers the last of a chunk.
func (b *numberBehind) pass(p *chunk) {
	if n := len(p.numbers); n > 0 {
		b.known, b.last = true, p.numbers[n-1]
	}
}

// set gives a point the number of its last sample. Numbers of earlier samples are ignored: a number
// belongs to the time of the prediction.
func (b *numberBehind) set(p *point, samples *chunk, u *track.Piece) {
	p.number = math.NaN()
	switch {
	case u.To > 0 && samples.numbers != nil:
		p.number = samples.numbers[u.To-1]
	case b.known:
		p.number = b.last
	case samples.numbers == nil:
		return
	}
	if p.label, p.mixed = 0, false; p.number != p.number {
		p.label = -1
	}
}
