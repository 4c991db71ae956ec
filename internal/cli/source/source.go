package source

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/imports"
	"github.com/eusn-stream/eusn-stream/internal/producer"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// Series plays one part of a data set on a number of streams: series k of the part goes to
// stream k mod streams, whole, and ends a sequence: by a mark, or by silence if times are set.
type Series struct {
	d       *archive.Dataset
	Series  []int
	Streams int
	next    int

	step    time.Duration // between two samples; 0: no times
	silence time.Duration // after each series except a stream's last, which ends by a mark
	clocks  []int64       // time of each stream's next sample, ns since 1970
}

// NewSeries distributes the part over streams; 0: each series is a separate stream, as required
// by policies without ends of series.
func NewSeries(d *archive.Dataset, split archive.Split, streams int) *Series {
	s := &Series{d: d, Series: d.Part(split)}
	if streams == 0 {
		streams = len(s.Series)
	}
	s.Streams = max(1, min(streams, len(s.Series)))
	return s
}

// BySilence gives the samples times, and ends series by silence.
func (s *Series) BySilence(step, silence time.Duration) {
	s.step, s.silence = step, silence
	s.clocks = slices.Repeat([]int64{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()}, s.Streams)
}

// Next implements producer.Source.
func (s *Series) Next() (producer.Item, error) {
	if s.next == len(s.Series) {
		return producer.Item{}, io.EOF
	}
	k := s.next
	s.next++
	it := producer.Item{Stream: StreamName(k % s.Streams), X: s.d.Series[s.Series[k]].Values, End: true}
	if s.step > 0 {
		clock := &s.clocks[k%s.Streams]
		for range s.d.Len(s.Series[k]) {
			it.Times = append(it.Times, *clock)
			*clock += int64(s.step)
		}
		*clock += int64(s.silence)
		it.End = k+s.Streams >= len(s.Series)
	}
	return it, nil
}

// StreamName returns the id of the nth stream of a data set.
func StreamName(n int) string { return fmt.Sprintf("s%05d", n) }

// Rows returns the total number of samples of the source.
func (s *Series) Rows() (n int64) {
	for _, i := range s.Series {
		n += int64(s.d.Len(i))
	}
	return n
}

// Recording plays a recording archive, one row group at a time. Within a row group each
// stream's samples up to the end of a sequence are one item, so the row group limits the
// memory.
type Recording struct {
	r     chunks
	width int // number of channels
	chunk archive.RecordingChunk
	items []producer.Item // of the current row group; items before next are used
	next  int
}

// chunks reads the samples of a recording in parts.
type chunks interface {
	Next(*archive.RecordingChunk) error
}

// NewRecording plays the unread rest of r.
func NewRecording(r *archive.RecordingReader) *Recording {
	return &Recording{r: r, width: len(r.Channels)}
}

// NewCSVRecording plays the unread rest of r.
func NewCSVRecording(r *imports.CSVRecording) *Recording {
	return &Recording{r: r, width: len(r.Channels)}
}

// Next implements producer.Source.
func (s *Recording) Next() (producer.Item, error) {
	for s.next == len(s.items) {
		if err := s.r.Next(&s.chunk); err != nil {
			return producer.Item{}, err
		}
		s.items, s.next = cutChunk(&s.chunk, s.width), 0
	}
	s.next++
	return s.items[s.next-1], nil
}

// cutChunk groups the samples of each stream into items, in the order of their first samples.
// Items hold copies, because the chunk is reused.
func cutChunk(c *archive.RecordingChunk, channels int) []producer.Item {
	var items []producer.Item
	open := map[string]int{} // stream to its open item
	for i, stream := range c.Stream {
		at, ok := open[stream]
		if !ok {
			at = len(items)
			open[stream] = at
			items = append(items, producer.Item{Stream: stream})
		}
		it := &items[at]
		samples := len(it.X) / channels
		it.X = append(it.X, c.Values[i*channels:(i+1)*channels]...)
		if c.Time[i] != archive.NoTime && len(it.Times) == samples {
			it.Times = append(it.Times, c.Time[i])
		}
		if it.End = c.End[i]; it.End {
			delete(open, stream)
		}
	}
	for i := range items { // an item has times for all samples or for none
		if len(items[i].Times) != len(items[i].X)/channels {
			items[i].Times = nil
		}
	}
	return items
}

// Until ends a source with a context, so that a long skip over published samples can be
// interrupted.
func Until(ctx context.Context, s producer.Source) producer.Source { return stoppingSource{ctx, s} }

type stoppingSource struct {
	ctx context.Context
	producer.Source
}

func (s stoppingSource) Next() (producer.Item, error) {
	if err := s.ctx.Err(); err != nil {
		return producer.Item{}, err
	}
	return s.Source.Next()
}
