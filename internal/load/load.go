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
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// Options say what is published.
type Options struct {
	Channels []string
	Rows     int           // samples of a message
	Keys     int           // producers, which take turns
	Subject  string        // what comes before a key; empty: sensors, as a stage's input has by default
	Patience time.Duration // how long a busy server may take
}

// Generator publishes messages of drawn samples, as numbered producers taking
// turns. Every message has the same samples: only their number differs.
type Generator struct {
	js      jetstream.JetStream
	o       Options
	payload []byte
	sent    int
}

// New encodes the message that every producer sends.
func New(js jetstream.JetStream, o Options) (*Generator, error) {
	enc, err := codec.NewInputEncoder(o.Channels, codec.InputOptions{})
	if err != nil {
		return nil, err
	}
	payload, err := enc.Encode(&codec.Batch{Rows: o.Rows, X: Samples(o.Rows, len(o.Channels))})
	return &Generator{js: js, o: o, payload: slices.Clone(payload)}, err
}

// Samples draws rows of samples, the same ones each time.
func Samples(rows, channels int) []float32 {
	rng := rand.New(rand.NewPCG(5, 8))
	x := make([]float32, rows*channels)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// MessageBytes is the length of a message's payload.
func (g *Generator) MessageBytes() int { return len(g.payload) }

// next sends one message without waiting for its acknowledgement.
func (g *Generator) next() error {
	m := &nats.Msg{Subject: cmp.Or(g.o.Subject, "sensors") + "." + g.key(), Data: g.payload, Header: nats.Header{
		pipeline.HeaderSeq: {strconv.Itoa(g.sent/g.o.Keys + 1)},
	}}
	g.sent++
	_, err := g.js.PublishMsgAsync(m, jetstream.WithStallWait(g.o.Patience)) // a busy server is no failure
	return err
}

// key is whose turn it is to send.
func (g *Generator) key() string { return fmt.Sprintf("s%d", g.sent%g.o.Keys) }

// Burst stores that many messages as fast as the server takes them.
func (g *Generator) Burst(ctx context.Context, messages int) error {
	for range messages {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := g.next(); err != nil {
			return fmt.Errorf("load: publish: %w", err)
		}
	}
	select {
	case <-g.js.PublishAsyncComplete():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(g.o.Patience):
		return fmt.Errorf("load: the server did not acknowledge %d messages within %v", g.js.PublishAsyncPending(), g.o.Patience)
	}
}

// Pace sends a message at equal distances of time and tells expect when each was
// due: what comes late because the sender was held up counts as late.
func (g *Generator) Pace(ctx context.Context, messages int, every time.Duration, expect func(key string, due time.Time)) error {
	begin := time.Now()
	for i := range messages {
		due := begin.Add(time.Duration(i) * every)
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		expect(g.key(), due)
		if err := g.next(); err != nil {
			return fmt.Errorf("load: publish: %w", err)
		}
	}
	return nil
}
