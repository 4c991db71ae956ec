package state

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Known loss: input that was removed, by age or by hand, before its partition had read
// it. All partitions share the numbers of an input, so missing input after a
// partition's last message may or may not belong to the partition. Input not known to
// be complete is flagged: each open sequence of the partition carries FlagGap, and so
// does the next sequence of each known stream, and the first sequence of each unknown
// stream or key. Keys with numbered messages are known to be complete if the next number comes;
// otherwise the gap is flagged. Only a sequence that silence ends before a next message
// is flagged like unnumbered keys.
//
// A replay must not depend on the content of the input at the time of reading, so each
// record names the messages after a loss, beginning with the snapshot that the record
// names.

// Interval is the input messages from..to.
type Interval struct{ From, To uint64 }

// Losses are the messages before which input of the partition may have been lost,
// ascending.
type Losses []Interval

const (
	// mostLosses limits a record. After this many, every message counts as following a
	// loss, until a snapshot is in use.
	mostLosses = 16
	onwards    = math.MaxUint64
)

// mayPrecede reports whether something may have been lost before a message.
func (l Losses) mayPrecede(seq uint64) bool {
	for i := len(l) - 1; i >= 0; i-- {
		if seq >= l[i].From {
			return seq <= l[i].To
		}
	}
	return false
}

// addLoss adds a loss before message seq, after all recorded losses; before is the
// partition's previous message.
func (l Losses) addLoss(before, seq uint64) Losses {
	n := len(l)
	switch {
	case l.mayPrecede(seq):
		return l
	case n > 0 && l[n-1].To == before:
		l[n-1].To = seq
		return l
	case n >= mostLosses:
		return append(l, Interval{seq, onwards})
	}
	return append(l, Interval{seq, seq})
}

// ForgetSaved removes losses contained in a snapshot in use, and ends, with the current
// snapshot after message done, the state in which every message counts.
func (l Losses) ForgetSaved(inUse, done uint64) Losses {
	l = slices.DeleteFunc(l, func(s Interval) bool { return s.To <= inUse })
	if n := len(l); n > 0 && n <= mostLosses/2 && l[n-1].To == onwards {
		l[n-1].To = done
	}
	return l
}

// String is empty, or as in "12 40-77 90-".
func (l Losses) String() string {
	var words []string
	for _, s := range l {
		switch {
		case s.To == s.From:
			words = append(words, strconv.FormatUint(s.From, 10))
		case s.To == onwards:
			words = append(words, fmt.Sprintf("%d-", s.From))
		default:
			words = append(words, fmt.Sprintf("%d-%d", s.From, s.To))
		}
	}
	return strings.Join(words, " ")
}

// ParseLosses reads the output of String. The text may come from any source.
func ParseLosses(text string) (l Losses, err error) {
	if len(text) > 64*mostLosses {
		return nil, fmt.Errorf("%d characters are too many", len(text))
	}
	for _, word := range strings.Fields(text) {
		first, last, ranged := strings.Cut(word, "-")
		s := Interval{To: onwards}
		if s.From, err = strconv.ParseUint(first, 10, 64); err != nil {
			return nil, fmt.Errorf("%q is no number", first)
		}
		switch {
		case !ranged:
			s.To = s.From
		case last != "":
			if s.To, err = strconv.ParseUint(last, 10, 64); err != nil {
				return nil, fmt.Errorf("%q is no number", last)
			}
		}
		if n := len(l); s.To < s.From || n > 0 && s.From <= l[n-1].To {
			return nil, fmt.Errorf("%q is not in order", word)
		}
		l = append(l, s)
	}
	return l, nil
}
