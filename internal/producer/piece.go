package producer

import (
	"fmt"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/trace"
)

// liveLane is a stream of a Live.
type liveLane struct {
	lane  *Lane
	there reached // Resume: the stream's position in the input at the start
	seen  int64   // time of the last sample offered
	until int64   // time of the last sample with a number
	last  uint64  // number of the key's last message in the input, 0 = none
	moved bool    // the last message is in another partition than the next

	taken, stored uint64 // samples and ends
}

// reached is a stream's position in the input.
type reached struct {
	time int64 // of its last sample; codec.NoTime = no time
	end  bool  // the message ends the sequence
}

// pieceOf checks an item, and with resume skips samples that the input already has.
// seen is the time of the last sample offered, including skipped samples.
func (s *liveLane) pieceOf(it *Item, channels int, resume bool) (p Piece, seen int64, err error) {
	rows := len(it.X) / channels
	if len(it.X)%channels != 0 || len(it.Times) > 0 && len(it.Times) != rows {
		return Piece{}, 0, fmt.Errorf("producer: stream %q: %d values of %d channels with %d times", s.lane.Key, len(it.X), channels, len(it.Times))
	}
	p, seen = Piece{X: it.X, Times: it.Times, End: it.End, Trace: it.Trace}, s.seen
	if !resume {
		return p, seen, nil
	}
	if len(it.Times) != rows {
		return Piece{}, 0, fmt.Errorf("producer: stream %q: %d samples without times: to resume, each needs one", s.lane.Key, rows)
	}
	skip := 0
	for i, t := range it.Times {
		if t == codec.NoTime || seen != codec.NoTime && t <= seen {
			return Piece{}, 0, fmt.Errorf("producer: stream %q: sample %d of time %d comes after one of time %d: to resume, each sample needs a later time than the one before", s.lane.Key, i, t, seen)
		}
		seen = t
		if s.there.time != codec.NoTime && t <= s.there.time {
			skip++
		}
	}
	p.X, p.Times = p.X[skip*channels:], p.Times[skip:]
	if len(p.X) == 0 && s.hasEnd(seen) {
		p.End = false
	}
	return p, seen, nil
}

// countRows is how many samples and ends a piece has.
func (p *Piece) countRows(channels int) int {
	if p.End {
		return len(p.X)/channels + 1
	}
	return len(p.X) / channels
}

// cutRows removes the first rows from a piece, or the whole piece if it has no more.
func (p *Piece) cutRows(rows, channels int) Piece {
	if rows >= len(p.X)/channels {
		first := *p
		*p = Piece{}
		return first
	}
	first := Piece{X: p.X[:rows*channels], Trace: p.Trace}
	p.X = p.X[rows*channels:]
	if len(p.Times) > 0 {
		first.Times, p.Times = p.Times[:rows], p.Times[rows:]
	}
	p.Trace = trace.Context{}
	return first
}

// hasEnd reports whether the input has an end after the sample with that time,
// codec.NoTime for the last sample: an end after a stored sample is stored too, unless
// the sample is the last one.
func (s *liveLane) hasEnd(at int64) bool {
	if s.there.time == codec.NoTime {
		return false
	}
	return at != codec.NoTime && at < s.there.time || (at == codec.NoTime || at == s.there.time) && s.there.end
}

// extendOpen returns the time of the stream's last sample, after the samples of a
// message.
func (s *liveLane) extendOpen(o *open) int64 {
	if o.rows > 0 {
		s.until = codec.NoTime
	}
	if o.rows > 0 && o.timed {
		s.until = o.times[o.rows-1]
	}
	return s.until
}
