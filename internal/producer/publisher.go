package producer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/trace"
)

// Item is a piece of one stream to publish: a whole series, or the next samples of a
// recording.
type Item struct {
	Stream string    // key: the text matched by the wildcards of the subject, joined by dots
	X      []float32 // samples x channels, row-major; NaN = missing
	Times  []int64   // ns since the Unix epoch, one per sample, or empty
	End    bool      // the sequence ends after the last sample
	// Trace is the trace of the samples. The message with the first sample carries the
	// trace; if a message contains several items, the first trace. Optional.
	Trace trace.Context
}

// Source yields items in the order of each stream; io.EOF ends it. An item belongs to
// the publisher until it has been published, so slices must not be reused.
type Source interface {
	Next() (Item, error)
}

// FromSlice is a Source of the items of a slice, read in place.
func FromSlice(items []Item) Source { return &slice{items} }

type slice struct{ left []Item }

func (s *slice) Next() (Item, error) {
	if len(s.left) == 0 {
		return Item{}, io.EOF
	}
	it := s.left[0]
	s.left = s.left[1:]
	return it, nil
}

// Defaults of Publisher.
const (
	DefaultRowsPerMessage = 256 // messages of about 8 kB for 6 channels: cheap per sample, small in delay
	DefaultPlaying        = 64  // streams at a time

	answerTimeout    = 5 * time.Second        // an acknowledgement not here by then is not waited for
	retryWait        = 100 * time.Millisecond // pause before a retry of the request
	headerRoom       = 4 << 10                // bytes reserved in a message for its headers
	maxPending       = 16 << 20               // bytes without an acknowledgement
	noStreamPatience = 10 * time.Second       // a starting stage creates its NATS streams meanwhile
	progressEvery    = 100 * time.Millisecond
)

// Publisher publishes recorded samples as producers do: one subject per stream, messages
// numbered by Eusn-Seq, many streams at a time. Each stream has at most one message in
// flight, so that no failure changes the order.
type Publisher struct {
	Subject        string   // the job's input subject, names and all; empty = "sensors.*"
	Channels       []string // of the samples, in order
	RowsPerMessage int      // 0 = DefaultRowsPerMessage
	Playing        int      // streams at a time; 0 = DefaultPlaying
	Speed          float64  // 1 = as recorded, 10 = ten times as fast, 0 = as fast as the server accepts
	Rate           float64  // samples per second of each stream for items without times; needed if Speed > 0
	// Resume continues after the messages of each stream in Job's input: as many
	// messages are skipped. Source, Channels and RowsPerMessage must be unchanged. If
	// the job has no input, Publish returns an error. Without Resume streams are
	// numbered from 1, as a new incarnation.
	Resume   bool
	Job      string          // needed to resume; empty = "eusn"
	Log      *slog.Logger    // optional
	Progress func(Published) // optional: called about ten times a second
}

// Published counts a Publisher's messages so far.
type Published struct {
	Streams  int
	Messages uint64 // acknowledged
	Rows     uint64 // in the messages
	Bytes    uint64 // of payload
	Skipped  uint64 // messages already stored (Resume)
	Retries  uint64 // messages resent without an answer
	Elapsed  time.Duration
}

// RowsPerSecond returns the rate so far.
func (p Published) RowsPerSecond() float64 {
	if p.Elapsed <= 0 {
		return 0
	}
	return float64(p.Rows) / p.Elapsed.Seconds()
}

// Publish publishes all items of src and returns when every message is acknowledged.
// When ctx ends it waits for the messages in flight and returns ctx's error with the
// counts.
func (p Publisher) Publish(ctx context.Context, nc *nats.Conn, src Source) (Published, error) {
	p.Subject = cmp.Or(p.Subject, wire.DefaultInputSubject)
	p.RowsPerMessage = cmp.Or(p.RowsPerMessage, DefaultRowsPerMessage)
	p.Playing = cmp.Or(p.Playing, DefaultPlaying)
	p.Job = cmp.Or(p.Job, wire.DefaultJob)
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	pattern, err := p.checkOptions()
	if err != nil {
		return Published{}, err
	}
	l := newLoop(p, pattern, src)
	if err := l.openStreams(ctx, nc); err != nil {
		return Published{}, err
	}
	err = l.runLoop(ctx)
	return l.reportPublished(), err
}

func (p Publisher) checkOptions() (wire.Pattern, error) {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("producer: "+format, args...))
	}
	pattern, err := wire.ParsePattern(p.Subject)
	if err != nil {
		bad("%w", err)
	}
	if p.RowsPerMessage < 1 || p.Playing < 1 {
		bad("rows per message %d, streams at a time %d: want 1 or more", p.RowsPerMessage, p.Playing)
	}
	if !(p.Speed >= 0 && p.Speed < 1e9) || !(p.Rate >= 0 && p.Rate < 1e12) {
		bad("speed %g, rate %g, want 0 or more", p.Speed, p.Rate)
	}
	return pattern, errors.Join(errs...)
}
