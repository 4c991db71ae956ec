package state

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Known loss: input that was removed, by age or by hand, before its partition
// had read it. The numbers of an input are those of all partitions together, so
// that input is missing behind a partition's last message does not say that any
// of it was the partition's. It may have been: what is not known to be complete
// is flagged. Every open sequence of the partition carries FlagGap, and so does
// the next of each stream it knows, and the first of each key it does not know.
// Keys whose producers number their messages are known to be complete where the
// next number comes, and have their gap flagged where it does not; only where a
// sequence is ended by silence, before a next message, it is flagged as others.
//
// What a replay repeats must not depend on what the input still held when a
// message was read, so each record names the messages before which something
// was lost, from the snapshot on that it names.

// Interval is the input messages from..to.
type Interval struct{ From, To uint64 }

// Losses are the messages before each of which input of the partition may have
// been lost, ascending.
type Losses []Interval

const (
	// mostLosses bounds a record. Beyond them, every message counts as one that
	// follows a loss, until a snapshot is in use.
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

// addLoss notes a loss before a message, which lies behind those noted; before is
// the partition's message before it.
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

// ForgetSaved lets go of what a snapshot in use holds, and ends with the one being
// taken, after message done, that every message counts.
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

// ParseLosses reads what String wrote. It may come from anywhere.
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
