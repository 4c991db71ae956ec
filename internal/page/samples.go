package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/formats"
)

const (
	sampleBins     = 300 // of a channel's trace
	sampleMessages = 5_000
	sampleBytes    = 8 << 20
	mostChannels   = 64
	mostSpan       = 366 * 24 * time.Hour
)

// Samples are the samples of a stream in a time span, by storage time.
type Samples struct {
	From     int64   `json:"from"`  // ms since 1970
	Until    int64   `json:"until"` // ms since 1970
	Rows     int     `json:"rows"`  // samples read
	Cut      bool    `json:"cut"`   // the span was shortened: it had too many samples
	Channels []Trace `json:"channels"`
	More     int     `json:"more_channels,omitempty"`
	Bad      int     `json:"undecoded,omitempty"` // messages that cannot be decoded
}

// Trace has the smallest and the largest value of a channel in equal parts of the span; null:
// none.
type Trace struct {
	Name string     `json:"name"`
	Low  []*float32 `json:"low"`
	High []*float32 `json:"high"`
}

// sampleQuery is the query of /page/samples.
type sampleQuery struct {
	name        string
	part        int // partition, for a stream whose messages have another key; -1 = unknown
	from, until time.Time
}

// parseSampleQuery parses the query of /page/samples.
func parseSampleQuery(text string) (q sampleQuery, err error) {
	values, err := url.ParseQuery(text)
	if err != nil {
		return q, fmt.Errorf("the query cannot be read: %s", shorten(err.Error()))
	}
	if q.name, err = parseQuery(url.Values{"name": values["name"]}.Encode(), "name"); err != nil {
		return q, err
	}
	number := func(key string, low, high int64) (v int64) {
		if err != nil {
			return 0
		}
		if v, err = strconv.ParseInt(values.Get(key), 10, 64); err != nil || v < low || v > high {
			err = fmt.Errorf("%s is %q, want a number from %d to %d", key, shorten(values.Get(key)), low, high)
		}
		return v
	}
	const latest = 4102444800000 // the year 2100
	q.part = int(number("partition", -1, 1<<16))
	q.from, q.until = time.UnixMilli(number("from", 0, latest)), time.UnixMilli(number("until", 0, latest))
	if err == nil && (!q.until.After(q.from) || q.until.Sub(q.from) > mostSpan) {
		err = errors.New("until must be after from, by at most 366 days")
	}
	return q, err
}

// errMany ends the reading of too many samples.
var errMany = errors.New("too many samples")

// sampleReader reads the samples of a stream.
type sampleReader struct {
	query   sampleQuery
	decoder formats.Decoder
	width   int // channels
	byKey   bool

	batch    codec.Batch
	out      *Samples
	previous time.Time // storage time of the previous message
	messages int
	bytes    int
}

// readSamples reads the samples of a stream from the job's input. If there are too many, it reads
// the last part of the span.
func readSamples(ctx context.Context, js jetstream.JetStream, job string, channels []string, q sampleQuery) (*Samples, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	j, err := admin.Open(ctx, js, job)
	if err != nil {
		return nil, err
	}
	text, _, err := j.Reads(ctx)
	if err != nil {
		return nil, err
	}
	input, err := formats.Parse(text)
	if err != nil {
		return nil, err
	}
	decoder, err := formats.New(input, codec.Schema{Channels: channels, NonFinite: codec.Hold})
	if err != nil {
		return nil, err
	}
	for span := q.until.Sub(q.from); ; span /= 4 {
		r := sampleReader{query: q, decoder: decoder, width: len(channels)}
		r.query.from = q.until.Add(-span)
		r.out = newSamples(channels, &r.query)
		r.out.Cut = r.query.from.After(q.from)
		err := r.readSpan(ctx, js, j.InputJob())
		if errors.Is(err, errMany) && span > time.Second {
			continue
		}
		if err != nil && !errors.Is(err, errMany) {
			return nil, cmp.Or(ctx.Err(), err)
		}
		return r.out, ctx.Err()
	}
}

// newSamples returns empty samples.
func newSamples(channels []string, q *sampleQuery) *Samples {
	s := &Samples{From: q.from.UnixMilli(), Until: q.until.UnixMilli(), Channels: []Trace{}}
	s.More = max(0, len(channels)-mostChannels)
	for _, name := range channels[:len(channels)-s.More] {
		s.Channels = append(s.Channels, Trace{name, make([]*float32, sampleBins), make([]*float32, sampleBins)})
	}
	return s
}

// readSpan reads the messages of the stream's key. Without any, the stream may be one of several in
// the messages of another key.
func (r *sampleReader) readSpan(ctx context.Context, js jetstream.JetStream, job string) error {
	span := consumer.InputSpan{Job: job, Key: r.query.name, Since: r.query.from, Till: r.query.until}
	r.byKey = true
	err := consumer.ReadInput(ctx, js, span, r.addMessage)
	if err != nil || r.messages > 0 || r.query.part < 0 {
		return err
	}
	span.Key, span.Partition, r.byKey = "", r.query.part, false
	return consumer.ReadInput(ctx, js, span, r.addMessage)
}

// addMessage adds the samples of a message.
func (r *sampleReader) addMessage(m consumer.InputMessage) error {
	r.messages++
	r.bytes += len(m.Data)
	if r.messages > sampleMessages || r.bytes > sampleBytes {
		return errMany
	}
	previous := r.previous
	r.previous = m.Stored
	b := &r.batch
	b.Reset()
	if len(m.Data) == 0 || r.decoder.Decode(m.Data, b) != nil {
		r.out.Bad++
		return nil
	}
	if len(b.Keys) == 0 && m.Key != r.query.name {
		return nil
	}
	for i := range b.Rows {
		if len(b.Keys) > 0 && b.Keys[b.Key[i]] != r.query.name {
			continue
		}
		r.out.Rows++
		r.addRow(rowTime(b, i, previous, m.Stored), b.X[i*r.width:(i+1)*r.width])
	}
	return nil
}

// rowTime returns a row's time by the server's clock: the last row of a message has the message's
// storage time. Rows without a time are evenly spaced since the previous message.
func rowTime(b *codec.Batch, i int, previous, stored time.Time) time.Time {
	if n := len(b.Times); n == b.Rows && b.Times[i] != codec.NoTime && b.Times[n-1] != codec.NoTime {
		return stored.Add(time.Duration(b.Times[i] - b.Times[n-1]))
	}
	if previous.IsZero() {
		return stored
	}
	step := stored.Sub(previous) / time.Duration(b.Rows)
	return stored.Add(-step * time.Duration(b.Rows-1-i))
}

// addRow adds a sample to the traces.
func (r *sampleReader) addRow(at time.Time, values []float32) {
	share := float64(at.Sub(r.query.from)) / float64(r.query.until.Sub(r.query.from))
	if share < 0 || share > 1 {
		return
	}
	bin := min(sampleBins-1, int(share*sampleBins))
	for c := range r.out.Channels {
		v := values[c]
		if !isFinite(v) {
			continue
		}
		t := &r.out.Channels[c]
		if t.Low[bin] == nil || v < *t.Low[bin] {
			t.Low[bin] = &v
		}
		if t.High[bin] == nil || v > *t.High[bin] {
			t.High[bin] = &v
		}
	}
}
