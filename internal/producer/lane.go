package producer

import (
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/trace"
)

// lane is one stream of a Live: what waits, and what is under way.
type lane struct {
	key         string
	incarnation string
	seq         uint64 // of the last message made
	before

	there reached // Resume: what the input had at the start
	seen  int64   // time of the last sample offered

	x     []float32 // waiting samples
	times []int64   // one per sample; codec.NoTime = none
	ends  []int     // after so many of the waiting samples the sequence ends
	since time.Time // when the first of them came

	account

	msg     *nats.Msg // in flight, or refused and to be sent again
	rows    int       // samples in it
	pieces  int       // samples and ends
	until   int64     // time of its last sample
	sent    time.Time
	refused time.Time // since when the server refuses it

	due   time.Time
	place int // in lanes; -1 = not there
}

// account is how much of a stream was taken and stored, and the trace of what waits.
type account struct {
	taken, stored uint64 // samples and ends
	trace         trace.Context
}

// before is what resuming knows of the key's last message in the input.
type before struct {
	last  uint64 // its number there, 0 = none
	moved bool   // it lies in another partition than the next one will
}

// reached is how far the input has a stream.
type reached struct {
	time int64 // of its last sample; codec.NoTime = it has none
	end  bool  // the sequence ends with it
}

// piece is what an item adds to a stream.
type piece struct {
	x     []float32
	times []int64 // empty, or one per sample
	rows  int
	end   bool
	seen  int64 // time of the last sample offered, also of one that is left out
	trace trace.Context
}

func (p *piece) count() int {
	if p.end {
		return p.rows + 1
	}
	return p.rows
}

// check checks an item, and with resume leaves out what the input has already.
func (s *lane) check(it *Item, channels int, resume bool) (piece, error) {
	p := piece{x: it.X, times: it.Times, rows: len(it.X) / channels, end: it.End, seen: s.seen, trace: it.Trace}
	if len(it.X)%channels != 0 || len(it.Times) > 0 && len(it.Times) != p.rows {
		return piece{}, fmt.Errorf("producer: stream %q: %d values of %d channels with %d times", s.key, len(it.X), channels, len(it.Times))
	}
	if !resume {
		return p, nil
	}
	if len(it.Times) != p.rows {
		return piece{}, fmt.Errorf("producer: stream %q: %d samples without times: to resume, each needs one", s.key, p.rows)
	}
	skip := 0
	for i, t := range it.Times {
		if t == codec.NoTime || p.seen != codec.NoTime && t <= p.seen {
			return piece{}, fmt.Errorf("producer: stream %q: sample %d of time %d comes after one of time %d: to resume, each sample needs a later time than the one before", s.key, i, t, p.seen)
		}
		p.seen = t
		if s.there.time != codec.NoTime && t <= s.there.time {
			skip++
		}
	}
	p.x, p.times, p.rows = p.x[skip*channels:], p.times[skip:], p.rows-skip
	if p.rows == 0 && s.hasEnd(p.seen) {
		p.end = false
	}
	return p, nil
}

// hasEnd reports whether the input has an end after the sample of that time, codec.NoTime for
// the last one that it has: the end after a sample that is there is there too, unless the
// sample is the last one.
func (s *lane) hasEnd(at int64) bool {
	if s.there.time == codec.NoTime {
		return false
	}
	return at != codec.NoTime && at < s.there.time || (at == codec.NoTime || at == s.there.time) && s.there.end
}

// add appends a piece to what waits.
func (s *lane) add(p piece) {
	s.x = append(s.x, p.x...)
	s.times = append(s.times, p.times...)
	if len(p.times) == 0 {
		for range p.rows {
			s.times = append(s.times, codec.NoTime)
		}
	}
	if p.end {
		s.ends = append(s.ends, len(s.times))
	}
	if !s.trace.Valid() {
		s.trace = p.trace
	}
	s.taken += uint64(p.count())
	s.seen = p.seen
}

func (s *lane) waiting() int { return len(s.times) + len(s.ends) }

// full reports whether the next message need not wait for more samples.
func (s *lane) full(rows int) bool { return len(s.times) >= rows || len(s.ends) > 0 }

// next is how many samples the next message has, and whether a sequence ends
// after them.
func (s *lane) next(rows int) (n int, end bool) {
	n = min(rows, len(s.times))
	if len(s.ends) > 0 && s.ends[0] <= n {
		return s.ends[0], true
	}
	return n, false
}

// drop takes what is in the message that was just made from what waits.
func (s *lane) drop(n int, end bool, channels int) {
	s.x = slices.Delete(s.x, 0, n*channels)
	s.times = slices.Delete(s.times, 0, n)
	if end {
		s.ends = slices.Delete(s.ends, 0, 1)
	}
	for i := range s.ends {
		s.ends[i] -= n
	}
}

// lanes is a heap of streams by the time they are due.
type lanes []*lane

func (q lanes) Len() int           { return len(q) }
func (q lanes) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q lanes) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}
func (q *lanes) Push(x any) {
	s := x.(*lane)
	s.place = len(*q)
	*q = append(*q, s)
}
func (q *lanes) Pop() any {
	old := *q
	s := old[len(old)-1]
	old[len(old)-1] = nil
	s.place = -1
	*q = old[:len(old)-1]
	return s
}
