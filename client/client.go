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
	"github.com/eusn-stream/eusn-stream/internal/labels"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/producer"
	"github.com/eusn-stream/eusn-stream/internal/trace"
)

// Errors that a program may distinguish with errors.Is. A context's error is
// returned unchanged.
var (
	ErrNoJob      = wire.ErrNoJob                            // no stage has run with the name Options.Job
	ErrClosed     = producer.ErrClosed                       // Close was called, or the caller's connection was closed
	ErrReadOnly   = errors.New("the client has no channels") // Publish needs Options.Channels
	ErrBufferFull = producer.ErrBufferFull                   // the context of Publish ended while Publish waited for room
)

// NoTime is the time of a sample without a time.
const NoTime = codec.NoTime

// Options of a Client. All but Channels may be left out.
type Options struct {
	URL      string        // the server's address; empty = nats://127.0.0.1:4222
	NATS     []nats.Option // credentials, TLS and other options, such as nats.UserCredentials
	Job      string        // of the stage; empty = "eusn"
	Subject  string        // the job's input subject, names and all; empty = "sensors.*"
	Channels []string      // of the samples, in order; empty = the client only reads
	Rows     int           // most samples in a message; 0 = 256
	Latency  time.Duration // maximum wait of a sample for more samples; 0 = 100 ms, negative = none
	Buffer   int           // samples taken and not yet stored, of all streams; 0 = 65,536
	// Resume continues exactly after a restart. Times identify the samples, so each
	// sample needs a time, later than the previous time of its stream. The client
	// must have the right to read the job's input, and must be the only publisher of
	// its keys.
	Resume bool
	// Stored is called when the server has stored the next samples of a stream, in
	// their order, from one goroutine. Stored must not block or call the Client.
	Stored func(stream string, samples int)
	Log    *slog.Logger
}

// Samples are the next samples of one stream, with an optional end of its
// sequence.
type Samples struct {
	Stream string            // key: the tokens for the wildcards of the subject, joined by dots
	X      []float32         // samples x channels, row-major; NaN = missing
	Times  []int64           // ns since 1970, one per sample, NoTime = none; or empty
	End    bool              // the sequence ends after the last sample
	Trace  map[string]string // traceparent and tracestate of the cause of the samples; nil = none
}

// Label assigns a class to a part of a stream: its samples from From until
// before To, or the sequence of the prediction with Seq and Row. Of labels with
// the same target and the same Who the last label counts.
type Label struct {
	Stream   string
	From, To int64  // ns since 1970
	Seq      uint64 // of the prediction; 0 = From and To count
	Row      uint32 // of the sample in the message
	Class    string // the observed class; empty = withdraws an earlier label
	Who      string
	When     time.Time // zero = now
}

// LabelOf returns a label for the sequence of a prediction.
func LabelOf(p *Prediction, class, who string) Label {
	return Label{Stream: p.Stream, Seq: p.Seq, Row: p.Row, Class: class, Who: who}
}

// Client is a connection to a job's server. Several goroutines may call its
// methods.
type Client struct {
	job  string
	log  *slog.Logger
	own  bool // nc is closed with the client
	nc   *nats.Conn
	js   jetstream.JetStream
	live *producer.Live // nil if the client only reads
}

// Connect connects to a server. Connect returns ctx's error as soon as ctx
// ends; afterwards the client does not depend on ctx. The client restores a
// lost connection, without a limit of attempts.
func Connect(ctx context.Context, o Options) (*Client, error) {
	nc, err := natsclient.Connect(ctx, natsclient.Options{URL: o.URL, Name: "eusn-stream/" + jobOf(o) + "/client", Log: o.Log, More: o.NATS})
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

// New makes a client of a connection, which the caller still owns. New ignores
// URL and NATS. The connection should have nats.MaxReconnects(-1), and
// nats.ReconnectBufSize(-1) so that no message is sent long after its time.
func New(ctx context.Context, nc *nats.Conn, o Options) (*Client, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("client: JetStream: %w", err)
	}
	c := &Client{job: jobOf(o), log: o.Log, nc: nc, js: js}
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

func jobOf(o Options) string {
	if o.Job == "" {
		return wire.DefaultJob
	}
	return o.Job
}

// Publish accepts samples, all or none, and copies them. The server stores them
// soon after: see Flush. While the buffer is full Publish waits, until ctx ends;
// an error means that no sample was accepted.
func (c *Client) Publish(ctx context.Context, s Samples) error {
	if c.live == nil {
		return fmt.Errorf("client: %w: give Options.Channels to publish", ErrReadOnly)
	}
	item := producer.Item{Stream: s.Stream, X: s.X, Times: s.Times, End: s.End}
	if s.Trace != nil {
		item.Trace = trace.Of(map[string][]string{trace.HeaderParent: {s.Trace[trace.HeaderParent]}, trace.HeaderState: {s.Trace[trace.HeaderState]}})
	}
	return withClosed(c.live.Publish(ctx, item))
}

// Flush sends the waiting samples and returns nil when all accepted samples are stored, or
// ctx's error.
func (c *Client) Flush(ctx context.Context) error {
	if c.live == nil {
		return nil
	}
	return withClosed(c.live.Flush(ctx))
}

// Close flushes until ctx ends, and ends the client. The error has the number of samples that
// are not known to be stored.
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

// Label stores a label, and returns when the label is stored. A repeated label
// with the same When is stored once.
func (c *Client) Label(ctx context.Context, l Label) error {
	if l.When.IsZero() {
		l.When = time.Now()
	}
	_, err := labels.Add(ctx, c.js, c.job, labels.Label(l))
	return withClosed(err)
}

// withClosed adds ErrClosed to the error of a closed connection.
func withClosed(err error) error {
	if errors.Is(err, nats.ErrConnectionClosed) {
		return fmt.Errorf("client: %w (%w)", ErrClosed, err)
	}
	return err
}
