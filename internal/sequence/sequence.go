package sequence

import (
	"math"
	"time"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Max closes a sequence without an end: the engines' sample counts are limited to
// reservoir.MaxSteps. At 1 kHz the limit is reached after 24 days.
const Max = reservoir.MaxSteps / 2

// Cut is a piece of a stream's samples for one run of one state.
type Cut struct {
	Phase    int32 // index of the stream's state, of Policy.States
	From, To int32 // range of the given samples, [From, To)
	Age      int64 // samples of the sequence before sample From
	Reset    bool  // a sequence begins: the state is reset first
	Emit     bool  // a prediction after the last sample
	End      bool  // the prediction closes the sequence; otherwise it is early
}

// Sequencer cuts a stream's samples into sequences. Its decisions depend only on the
// samples, their times and marks, never on their split into messages. The zero value is a
// stream before its first sample. The fields are the whole state, and can be stored.
type Sequencer struct {
	N    int64 // samples in the open sequence; window: since the start of the stream
	Last int64 // time of the last sample, ns; for the gap policy
}

// Open reports whether a sequence has begun and not ended.
func (q *Sequencer) Open() bool { return q.N > 0 }

// Samples are the samples of a stream in a message. Times (ns) and Ends have one value
// per sample or are empty; EndAfter closes the sequence after the last sample, or,
// without samples, after the previous sample.
type Samples struct {
	Count    int
	Times    []int64
	Ends     []bool
	EndAfter bool
}

// hasMarks reports whether marks end the sequences of a policy.
func hasMarks(p *reservoir.Policy) bool {
	return p.Kind == reservoir.Marked || p.Kind == reservoir.Gap
}

// endsAfter reports whether the sequence ends after sample r, its Nth sample.
func (q *Sequencer) endsAfter(p *reservoir.Policy, s *Samples, r int) bool {
	if p.Kind == reservoir.Count && q.N == int64(p.Length) || q.N == Max {
		return true
	}
	return hasMarks(p) && (len(s.Ends) > 0 && s.Ends[r] || s.EndAfter && r == s.Count-1)
}

// Cut appends the pieces of the next samples to dst in the order of their runs. End marks
// count for the policies with sequences of variable length, marked and gap. The gap
// policy needs times.
func (q *Sequencer) Cut(dst []Cut, p *reservoir.Policy, s Samples) []Cut {
	if p.Kind == reservoir.Window {
		return q.cutWindow(dst, p, s.Count)
	}
	start := 0 // first sample not yet in a cut
	first, age := q.N == 0, q.N
	add := func(to int, emit, end bool) {
		dst = append(dst, Cut{From: int32(start), To: int32(to), Age: age, Reset: first, Emit: emit, End: end})
		age += int64(to - start)
		start, first = to, end
		if end {
			q.N, age = 0, 0
		}
	}
	for r := range s.Count {
		if p.Kind == reservoir.Gap {
			if q.Open() && isLonger(s.Times[r], q.Last, p.Gap) {
				add(r, true, true)
			}
			q.Last = s.Times[r]
		}
		q.N++
		end := q.endsAfter(p, &s, r)
		if end || p.Early > 0 && q.N%int64(p.Early) == 0 {
			add(r+1, true, end)
		}
	}
	if start < s.Count {
		add(s.Count, false, false)
	}
	if s.Count == 0 && s.EndAfter && hasMarks(p) && q.Open() {
		add(0, true, true)
	}
	return dst
}

// Silence ends the open sequence after a silence: as an end mark does if sequences may
// have any length, otherwise without a prediction.
func (q *Sequencer) Silence(dst []Cut, p *reservoir.Policy) []Cut {
	if p.Kind == reservoir.Marked || p.Kind == reservoir.Gap {
		return q.Cut(dst, p, Samples{EndAfter: true})
	}
	q.N = 0
	return dst
}

// isLonger reports whether the time between two times, which may be any values, exceeds
// d: an overflowing difference is long.
func isLonger(now, before int64, d time.Duration) bool {
	if now <= before {
		return false
	}
	diff := now - before
	return diff < 0 || diff > int64(d)
}

// cutWindow cuts for Length/Hop states, each Hop samples after the previous state: phase
// k holds the windows that begin at samples k*Hop + i*Length. Every Hop samples, after
// the first whole window, the phase whose window ends predicts. Early predictions come
// from the oldest open window.
func (q *Sequencer) cutWindow(dst []Cut, p *reservoir.Policy, count int) []Cut {
	begin, stop := q.N, q.N+int64(count)
	length, hop := int64(p.Length), int64(p.Hop)
	phases := length / hop
	base := len(dst)
	// A cut per phase, ending at an event of the phase or at the last sample. done(k) is
	// the progress of phase k: the end of its last cut.
	run := func(k, to int64, emit, end bool) {
		from := max(begin, k*hop)
		for i := len(dst) - 1; i >= base; i-- {
			if int64(dst[i].Phase) == k {
				from = begin + int64(dst[i].To)
				break
			}
		}
		if from < to || emit {
			age := (from - k*hop) % length
			dst = append(dst, Cut{
				Phase: int32(k), From: int32(from - begin), To: int32(to - begin), Age: age,
				Reset: age == 0, Emit: emit, End: end,
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
	q.N = stop
	return dst
}

// nextEvent returns the next count after n at which a window may end or an early
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
