package formats

import (
	"fmt"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/codec"
)

// table collects the values of a message until its rows are complete. A record describes
// a row, or several rows if its values are arrays. Values for all rows of a message are
// in whole.
type table struct {
	*layout
	format Format
	names  codec.KeyTable
	cols   [][]float32 // of the current record, one per channel
	row    marks       // of the current record
	whole  marks       // of the current message
}

// marks are the times, stream ids and end marks of some rows: none, one for all rows, or
// one per row.
type marks struct {
	times   []int64
	ids     []byte // concatenated
	offsets []int  // ends in ids
	ends    []bool
}

func (m *marks) reset() {
	m.times, m.ids, m.offsets, m.ends = m.times[:0], m.ids[:0], m.offsets[:0], m.ends[:0]
}

func (m *marks) addStream(id []byte) {
	m.ids = append(m.ids, id...)
	m.offsets = append(m.offsets, len(m.ids))
}

func newTable(l *layout, f Format) table {
	return table{layout: l, format: f, cols: make([][]float32, len(l.channels))}
}

// beginMessage starts a message.
func (t *table) beginMessage() {
	t.names.Begin()
	t.whole.reset()
	t.beginRecord()
}

// beginRecord starts a record.
func (t *table) beginRecord() {
	for c := range t.cols {
		t.cols[c] = t.cols[c][:0]
	}
	t.row.reset()
}

// endRecord adds a record's rows to b. A channel without any value must have been found
// before, unless all are empty.
func (t *table) endRecord(b *codec.Batch) error {
	n := len(t.cols[0])
	for c, col := range t.cols {
		if len(col) != n {
			return malformed(t.format, "row %d: channel %q has %s, but channel %q has %d: want as many of each", b.Rows,
				t.schema.Channels[0], samples(n), t.schema.Channels[c], len(col))
		}
	}
	width := len(t.cols)
	if int64(b.Rows+n)*int64(width) > math.MaxInt32 {
		return malformed(t.format, "more than %d values in one message", math.MaxInt32)
	}
	base := len(b.X)
	b.X = slices.Grow(b.X, n*width)[:base+n*width]
	for c, col := range t.cols {
		for i, x := range col {
			b.X[base+i*width+c] = x
		}
	}
	from := b.Rows
	b.Rows += n
	return t.markRows(b, from, &t.row, &t.layout.time, &t.layout.stream, false)
}

// endMessage ends a message: it applies the policy for samples that are not finite.
func (t *table) endMessage(b *codec.Batch) error { return t.schema.ApplyNonFinite(b, 0) }

// markRows sets times, streams and ends of the rows from one on. Values with a source in
// the message follow after the rows, with whole.
func (t *table) markRows(b *codec.Batch, from int, m *marks, time, stream *source, whole bool) error {
	late := func(s *source) bool { return (t.Rows != "" && s.message) != whole }
	if !late(time) {
		if err := t.markTimes(b, from, m.times); err != nil {
			return err
		}
	}
	if !late(stream) {
		if err := t.markStreams(b, from, m); err != nil {
			return err
		}
	}
	if late(&t.layout.end) {
		return nil
	}
	return t.markEnds(b, from, m.ends)
}

func (t *table) markTimes(b *codec.Batch, from int, times []int64) error {
	n := b.Rows - from
	if len(times) == 0 {
		if t.Time != "" && n > 0 {
			return mismatch(t.format, "row %d has no time (input.time: %s)", from, t.Time)
		}
		if len(b.Times) > 0 {
			b.Times = padTimes(b.Times, b.Rows)
		}
		return nil
	}
	b.Times = padTimes(b.Times, from)
	switch {
	case len(times) == n:
		b.Times = append(b.Times, times...)
	case len(times) != 1 || n == 0:
		return malformed(t.format, "row %d: %d times for %s", from, len(times), samples(n))
	case t.TimeStep == 0:
		return mismatch(t.format, "row %d: one time for %s: set input.time_step to the time between two samples, or send a time for each", from, samples(n))
	default:
		at := times[0]
		for range n {
			b.Times = append(b.Times, at)
			switch {
			case at == codec.NoTime:
			case at > math.MaxInt64-int64(t.TimeStep):
				return malformed(t.format, "row %d: time out of range", from)
			default:
				at += int64(t.TimeStep)
			}
		}
	}
	return nil
}

// padTimes fills rows of a message that has times only for other rows.
func padTimes(times []int64, rows int) []int64 {
	for len(times) < rows {
		times = append(times, codec.NoTime)
	}
	return times
}

func (t *table) markStreams(b *codec.Batch, from int, m *marks) error {
	n := b.Rows - from
	switch {
	case n == 0 && len(m.offsets) <= 1:
		return nil
	case len(m.offsets) == 0 && t.Stream != "":
		return mismatch(t.format, "row %d has no stream id (input.stream: %s)", from, t.Stream)
	case len(m.offsets) == 0 && len(b.Key) == 0:
		return nil
	case len(b.Key) != from || len(m.offsets) == 0:
		return malformed(t.format, "row %d: some rows have a stream id and others have none, want all or none", from)
	case len(m.offsets) != 1 && len(m.offsets) != n:
		return malformed(t.format, "row %d: %d stream ids for %s", from, len(m.offsets), samples(n))
	}
	for i := range n {
		j := min(i, len(m.offsets)-1)
		start := 0
		if j > 0 {
			start = m.offsets[j-1]
		}
		if !t.names.Append(m.ids[start:m.offsets[j]], b) {
			return malformed(t.format, "row %d: stream id %s: want a text that is not empty, in UTF-8", from+i, short(m.ids[start:m.offsets[j]]))
		}
	}
	return nil
}

func (t *table) markEnds(b *codec.Batch, from int, ends []bool) error {
	n := b.Rows - from
	pad := func(rows int) {
		for len(b.Ends) < rows {
			b.Ends = append(b.Ends, false)
		}
	}
	switch {
	case n == 0 && slices.Contains(ends, true):
		return malformed(t.format, "an end mark without a row: send it with the last row, or as the header Eusn-End")
	case len(ends) == 0:
		if len(b.Ends) > 0 {
			pad(b.Rows)
		}
	case len(ends) == n:
		pad(from)
		b.Ends = append(b.Ends, ends...)
	case len(ends) == 1: // the sequence ends after the last row
		pad(b.Rows)
		if n > 0 {
			b.Ends[b.Rows-1] = ends[0]
		}
	default:
		return malformed(t.format, "row %d: %d end marks for %s", from, len(ends), samples(n))
	}
	return nil
}

func samples(n int) string {
	if n == 1 {
		return "1 sample"
	}
	return fmt.Sprintf("%d samples", n)
}
