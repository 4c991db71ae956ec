package load

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Options configure the messages.
type Options struct {
	Channels []string
	Rows     int           // samples per message
	Keys     int           // producers, in turns
	Subject  string        // prefix of a key; empty: sensors, the default input of a stage
	Patience time.Duration // maximum wait for a busy server
}

// Generator publishes messages of random samples as numbered producers in turns. All messages
// have the same samples and differ only in their number.
type Generator struct {
	js      jetstream.JetStream
	options Options
	payload []byte
	sent    int
}

// New encodes the message of all producers.
func New(js jetstream.JetStream, o Options) (*Generator, error) {
	enc, err := codec.NewInputEncoder(o.Channels, codec.InputOptions{})
	if err != nil {
		return nil, err
	}
	payload, err := enc.Encode(&codec.Batch{Rows: o.Rows, X: Samples(o.Rows, len(o.Channels))})
	return &Generator{js: js, options: o, payload: slices.Clone(payload)}, err
}

// Samples draws rows of samples, always the same.
func Samples(rows, channels int) []float32 {
	rng := rand.New(rand.NewPCG(5, 8))
	x := make([]float32, rows*channels)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// MessageBytes returns the size of a message's payload.
func (g *Generator) MessageBytes() int { return len(g.payload) }

// sendNext sends one message without waiting for its acknowledgement.
func (g *Generator) sendNext() error {
	m := &nats.Msg{Subject: cmp.Or(g.options.Subject, "sensors") + "." + g.currentKey(), Data: g.payload, Header: nats.Header{
		wire.HeaderSeq: {strconv.Itoa(g.sent/g.options.Keys + 1)},
	}}
	g.sent++
	_, err := g.js.PublishMsgAsync(m, jetstream.WithStallWait(g.options.Patience)) // a busy server is no failure
	return err
}

// currentKey returns the key of the next producer.
func (g *Generator) currentKey() string { return fmt.Sprintf("s%d", g.sent%g.options.Keys) }

// Burst publishes a number of messages as fast as the server accepts them.
func (g *Generator) Burst(ctx context.Context, messages int) error {
	for range messages {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := g.sendNext(); err != nil {
			return fmt.Errorf("load: publish: %w", err)
		}
	}
	select {
	case <-g.js.PublishAsyncComplete():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(g.options.Patience):
		return fmt.Errorf("load: the server did not acknowledge %d messages within %v", g.js.PublishAsyncPending(), g.options.Patience)
	}
}

// Pace sends messages at equal intervals and passes each due time to expect: a delay of the
// sender counts as latency.
func (g *Generator) Pace(ctx context.Context, messages int, interval time.Duration, expect func(key string, due time.Time)) error {
	start := time.Now()
	for i := range messages {
		due := start.Add(time.Duration(i) * interval)
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		expect(g.currentKey(), due)
		if err := g.sendNext(); err != nil {
			return fmt.Errorf("load: publish: %w", err)
		}
	}
	return nil
}
