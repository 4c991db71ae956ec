package pipeline

import (
	"math"
	"time"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// maxSequence closes a sequence that does not end by itself: the engines'
// sample counts have reservoir.MaxSteps as their limit. At 1 kHz this is after
// 24 days.
const maxSequence = reservoir.MaxSteps / 2

// cut is a piece of a stream's samples that one state takes in one go.
type cut struct {
	phase    int32 // which of the stream's states
	from, to int32 // rows [from, to) of the samples given
	reset    bool  // a sequence begins: the state is reset first
	emit     bool  // a prediction after the last row
	end      bool  // that prediction closes the sequence; otherwise it is early
}

// sequencer cuts one stream's samples into sequences. What it decides depends
// on the samples, their times and marks alone, never on how they were split
// into messages.
type sequencer struct {
	n    int64 // samples in the open sequence; window: since the stream began
	last int64 // time of the last sample, ns; for the gap policy
}

// open reports whether a sequence has begun and not ended.
func (q *sequencer) open() bool { return q.n > 0 }

// samples is what a message holds of one stream. times and ends have one
// value per row or are empty; endAfter closes the sequence after the last row,
// or after the row before where there is none.
type samples struct {
	rows     int
	times    []int64
	ends     []bool
	endAfter bool
}

// cut appends the pieces of the next samples to dst in the order to run them.
// End marks count for the policies whose sequences vary in length, marked and
// gap. The gap policy needs times.
func (q *sequencer) cut(dst []cut, p *reservoir.Policy, s samples) []cut {
	if p.Kind == reservoir.Window {
		return q.cutWindow(dst, p, s.rows)
	}
	marks := p.Kind == reservoir.Marked || p.Kind == reservoir.Gap
	start := 0 // first row not yet in a cut
	first := q.n == 0
	add := func(to int, emit, end bool) {
		dst = append(dst, cut{from: int32(start), to: int32(to), reset: first, emit: emit, end: end})
		start, first = to, end
		if end {
			q.n = 0
		}
	}
	for r := range s.rows {
		if p.Kind == reservoir.Gap {
			if q.open() && longer(s.times[r], q.last, p.Gap) {
				add(r, true, true)
			}
			q.last = s.times[r]
		}
		q.n++
		end := marks && (len(s.ends) > 0 && s.ends[r] || s.endAfter && r == s.rows-1) ||
			p.Kind == reservoir.Count && q.n == int64(p.Length) || q.n == maxSequence
		if end || p.Early > 0 && q.n%int64(p.Early) == 0 {
			add(r+1, true, end)
		}
	}
	if start < s.rows {
		add(s.rows, false, false)
	}
	if s.rows == 0 && s.endAfter && marks && q.open() {
		add(0, true, true)
	}
	return dst
}

// silence ends the open sequence for want of samples: as an end mark would
// where sequences may have any length, without a prediction where they may
// not.
func (q *sequencer) silence(dst []cut, p *reservoir.Policy) []cut {
	if p.Kind == reservoir.Marked || p.Kind == reservoir.Gap {
		return q.cut(dst, p, samples{endAfter: true})
	}
	q.n = 0
	return dst
}

// longer reports whether more than d lies between two times, either of which
// may be anything: a difference that overflows is long.
func longer(now, before int64, d time.Duration) bool {
	if now <= before {
		return false
	}
	diff := now - before
	return diff < 0 || diff > int64(d)
}

// cutWindow serves Length/Hop states, each Hop samples behind the one before:
// phase k holds the windows that begin at samples k*Hop + i*Length. Every Hop
// samples, once a whole window has passed, the phase whose window ends
// predicts. Early predictions come from the oldest open window.
func (q *sequencer) cutWindow(dst []cut, p *reservoir.Policy, rows int) []cut {
	begin, stop := q.n, q.n+int64(rows)
	length, hop := int64(p.Length), int64(p.Hop)
	phases := length / hop
	base := len(dst)
	// One cut per phase, ending at an event of that phase or at the last row.
	// done(k) is how far phase k has come: the end of its last cut.
	run := func(k, to int64, emit, end bool) {
		from := max(begin, k*hop)
		for i := len(dst) - 1; i >= base; i-- {
			if int64(dst[i].phase) == k {
				from = begin + int64(dst[i].to)
				break
			}
		}
		if from < to || emit {
			dst = append(dst, cut{
				phase: int32(k), from: int32(from - begin), to: int32(to - begin),
				reset: (from-k*hop)%length == 0, emit: emit, end: end,
			})
		}
	}
	for c := nextEvent(begin, hop, p.Early); c <= stop; c = nextEvent(c, hop, p.Early) {
		switch ends := c%hop == 0 && c >= length; {
		case ends:
			run(c/hop%phases, c, true, true)
		case p.Early > 0 && c%int64(p.Early) == 0:
			oldest := max(0, (c-length)/hop+1)
			if c < length {
				oldest = 0
			}
			run(oldest%phases, c, true, false)
		}
	}
	for k := range phases {
		run(k, stop, false, false)
	}
	q.n = stop
	return dst
}

// nextEvent is the next count after n at which a window may end or an early
// prediction is due.
func nextEvent(n, hop int64, early int) int64 {
	next := (n/hop + 1) * hop
	if early > 0 {
		next = min(next, (n/int64(early)+1)*int64(early))
	}
	if next < n {
		return math.MaxInt64
	}
	return next
}
