package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/labels"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/producer"
	"github.com/eusn-stream/eusn-stream/internal/trace"
)

// Samples are the next samples of one stream, and perhaps the end of its
// sequence.
type Samples = producer.Item

// NoTime is the time of a sample that has none.
const NoTime = codec.NoTime

// Span is the part of the predictions that is read; the zero value is what comes
// from now on.
type Span = consumer.Span

// Options of a Client. All but Channels may be left out.
type Options struct {
	URL      string             // the server's address; empty = nats://127.0.0.1:4222
	Login    natsclient.Options // credentials and TLS; its URL and Name are not used
	Job      string             // of the stage; empty = "eusn"
	Subject  string             // the job's input subject, names and all; empty = "sensors.*"
	Channels []string           // of the samples, in order; empty = the client only reads
	Rows     int                // most samples in a message; 0 = 256
	Latency  time.Duration      // for how long a sample waits for others; 0 = 100 ms, negative = not at all
	Buffer   int                // samples taken and not yet stored, of all streams; 0 = 65,536
	Resume   bool               // continue exactly after a restart: producer.LiveOptions
	Stored   func(stream string, samples int)
	Log      *slog.Logger
}

// Client is a connection to a job's server. Its methods may be called by several
// goroutines.
type Client struct {
	job  string
	log  *slog.Logger
	own  bool // nc is closed with the client
	nc   *nats.Conn
	js   jetstream.JetStream
	live *producer.Live // nil where the client only reads
}

// Connect connects to a server. The connection, if it is lost, is made again for
// as long as it takes.
func Connect(ctx context.Context, o Options) (*Client, error) {
	login := o.Login
	login.URL, login.Name, login.Log = o.URL, "eusn-stream/"+job(o)+"/client", o.Log
	nc, err := natsclient.Connect(ctx, login)
	if err != nil {
		return nil, err
	}
	c, err := New(ctx, nc, o)
	if err != nil {
		nc.Close()
		return nil, err
	}
	c.own = true
	return c, nil
}

// New makes a client of a connection, which stays the caller's. URL and Login
// are not used. natsclient.LongLived has the options of a connection that lasts.
func New(ctx context.Context, nc *nats.Conn, o Options) (*Client, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("client: JetStream: %w", err)
	}
	c := &Client{job: job(o), log: o.Log, nc: nc, js: js}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if len(o.Channels) > 0 {
		c.live, err = producer.NewLive(ctx, nc, producer.LiveOptions{
			Subject: o.Subject, Channels: o.Channels, Rows: o.Rows, Latency: o.Latency, Buffer: o.Buffer,
			Resume: o.Resume, Job: o.Job, Stored: o.Stored, Log: o.Log,
		})
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

func job(o Options) string {
	if o.Job == "" {
		return "eusn"
	}
	return o.Job
}

// errReader is that of a client without channels.
var errReader = errors.New("client: this client only reads: give Options.Channels to publish")

// Publish takes samples, all or none, and copies them. They are stored soon
// after: see Flush. While the buffer is full it waits, until ctx ends; its error
// means that nothing was taken.
func (c *Client) Publish(ctx context.Context, s Samples) error {
	if c.live == nil {
		return errReader
	}
	return c.live.Publish(ctx, s)
}

// Flush sends what waits and returns when all that was taken before is stored.
func (c *Client) Flush(ctx context.Context) error {
	if c.live == nil {
		return nil
	}
	return c.live.Flush(ctx)
}

// Close flushes, and ends the client. Its error says how many samples are not
// known to be stored.
func (c *Client) Close(ctx context.Context) error {
	var err error
	if c.live != nil {
		err = c.live.Close(ctx)
	}
	if c.own {
		c.nc.Close()
	}
	return err
}

// Label says what a part of a stream was; package labels has its fields and
// rules. Without When it is of now.
type Label = labels.Label

// Label stores a label, and returns when it is stored. A label that is sent again
// is stored once, if its When is the same.
func (c *Client) Label(ctx context.Context, l Label) error {
	if l.When.IsZero() {
		l.When = time.Now()
	}
	_, err := labels.Add(ctx, c.js, c.job, l)
	return err
}

// LabelOf is a label of the sequence that a prediction is about.
func LabelOf(p *Prediction, class, who string) Label {
	return Label{Stream: p.Stream, Seq: p.Seq, Row: p.Row, Class: class, Who: who}
}

// Prediction is one prediction. codec's documentation says what its numbers
// mean; Flags.Integrity says in a word how far to trust it.
type Prediction struct {
	codec.Prediction
	Class   string        // by name; Prediction.Class is its number
	Stored  time.Time     // when the server stored it
	Message uint64        // its message in the job's output. Once all of it is handled, read on with Span.From = Message + 1
	Index   int           // its place in the message
	Trace   trace.Context // the span that sent its message; none: it was not traced (docs/traces.md)
}

// Integrity says in a word how far to trust the prediction: look at it before
// the class.
func (p *Prediction) Integrity() string { return p.Flags.Integrity() }

// Read hands predictions to fn, in the order in which they were stored, until
// ctx ends (nil), the span does (nil), or fn returns an error, which it returns.
// fn runs in another goroutine, one call at a time. A message of the output that
// is no prediction is logged and left out, unless Span.Skip takes it.
func (c *Client) Read(ctx context.Context, span Span, fn func(Prediction) error) error {
	if span.Skip == nil {
		span.Skip = func(err *consumer.ForeignError) {
			c.log.Warn("message skipped: not a prediction of this job", "err", err)
		}
	}
	return consumer.Read(ctx, c.js, c.job, span, func(o consumer.Output) error {
		for i, p := range o.Predictions {
			if err := fn(Prediction{Prediction: p, Class: o.Meta.Labels[p.Class], Stored: o.Stored, Message: o.Seq, Index: i, Trace: o.Trace}); err != nil {
				return err
			}
		}
		return nil
	})
}
