package gateway

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"strings"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/names"
)

// readLines reads lines one by one, and gives those that cannot be read, or do not pass
// the check, to refuse, with their numbers.
func readLines(d Decoder, payload []byte, check func(*Part) error, refuse func(number int, err error)) []Part {
	var all []Part
	number := 1
	for l := range splitLines(payload) {
		parts, err := d.Decode(l)
		for i := range parts {
			if err == nil {
				err = check(&parts[i])
			}
		}
		if err != nil {
			refuse(number, err)
		} else {
			all = append(all, parts...)
		}
		number += bytes.Count(l, []byte("\n"))
	}
	return all
}

// mergeParts makes one part of those of a stream: a message that can be repeated has one
// of each.
func mergeParts(parts []Part, channels int) []Part {
	var all []Part
	at := map[string]int{}
	for _, p := range parts {
		i, there := at[p.Key]
		if !there {
			at[p.Key] = len(all)
			all = append(all, p)
			continue
		}
		to := &all[i]
		before := len(to.X) / channels
		to.X = append(to.X, p.X...)
		rows := len(to.X) / channels
		to.Times = joinRows(to.Times, p.Times, before, rows, codec.NoTime)
		to.Ends = joinRows(to.Ends, p.Ends, before, rows, false)
	}
	return all
}

// joinRows appends what rows of two parts have. Either may have none of it, for which
// none stands if the other has.
func joinRows[T any](a, b []T, before, rows int, none T) []T {
	if len(a) == 0 && len(b) == 0 {
		return a
	}
	for len(a) < before {
		a = append(a, none)
	}
	for a = append(a, b...); len(a) < rows; {
		a = append(a, none)
	}
	return a
}

// badLines are those of a message that are refused.
type badLines struct {
	told  []string
	count int
}

const toldLines = 5 // of the bad ones in an answer

func (b *badLines) addLine(number int, err error) {
	if b.count++; len(b.told) < toldLines {
		b.told = append(b.told, fmt.Sprintf("line %d: %s", number, names.Cut(err.Error(), 300)))
	}
}

// linesError is nil if there are none; others: some lines are taken.
func (b *badLines) linesError(others bool) error {
	why := strings.Join(b.told, "; ")
	if more := b.count - len(b.told); more > 0 {
		why += fmt.Sprintf("; and %d more", more)
	}
	switch {
	case b.count == 0:
		return nil
	case !others:
		return refusedf("no line is stored: %s", why)
	}
	return &Partial{fmt.Sprintf("the other lines are stored, but not %s", why)}
}

// splitLines cuts line protocol into lines. The last one needs no end: the message is whole.
func splitLines(b []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			n := cmp.Or(new(formats.LineScanner).End(b), len(b))
			if !yield(b[:n]) {
				return
			}
			b = b[n:]
		}
	}
}
