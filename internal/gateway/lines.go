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

// readLines reads lines separately, and passes lines with a decoding or check error to
// refuse, with the line numbers.
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

// mergeParts merges the parts of each stream: a repeatable message has one part per
// stream.
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

// joinRows appends the rows of two parts. If only one part has rows, none fills the
// rows of the other part.
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

// badLines are the refused lines of a message.
type badLines struct {
	told  []string
	count int
}

const toldLines = 5 // bad lines named in an answer

func (b *badLines) addLine(number int, err error) {
	if b.count++; len(b.told) < toldLines {
		b.told = append(b.told, fmt.Sprintf("line %d: %s", number, names.Cut(err.Error(), 300)))
	}
}

// linesError returns nil without bad lines; others: other lines are accepted.
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

// splitLines splits line protocol into lines. The last line needs no line end: the
// message is complete.
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
