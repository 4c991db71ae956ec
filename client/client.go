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

// The errors that a program may want to tell apart, for errors.Is. A context's
// error is returned as such.
var (
	ErrNoJob      = wire.ErrNoJob                            // no stage has run with the name Options.Job
	ErrClosed     = producer.ErrClosed                       // Close was called, or the caller's connection was closed
	ErrReadOnly   = errors.New("the client has no channels") // Publish needs Options.Channels
	ErrBufferFull = producer.ErrBufferFull                   // the context of Publish ended while it waited for room
)

// NoTime is the time of a sample that has none.
const NoTime = codec.NoTime

// Options of a Client. All but Channels may be left out.
type Options struct {
	URL      string        // the server's address; empty = nats://127.0.0.1:4222
	NATS     []nats.Option // credentials, TLS and others, such as nats.UserCredentials
	Job      string        // of the stage; empty = "eusn"
	Subject  string        // the job's input subject, names and all; empty = "sensors.*"
	Channels []string      // of the samples, in order; empty = the client only reads
	Rows     int           // most samples in a message; 0 = 256
	Latency  time.Duration // for how long a sample waits for others; 0 = 100 ms, negative = not at all
	Buffer   int           // samples taken and not yet stored, of all streams; 0 = 65,536
	// Resume continues exactly after a restart. Times name the samples, so each needs
	// one, later than the previous one of its stream. The client needs the right to
	// read the job's input, and nobody else may publish under its streams' keys.
	Resume bool
	// Stored is called when the server has stored the next samples of a stream, in
	// their order, from one goroutine. It must not block or call the Client.
	Stored func(stream string, samples int)
	Log    *slog.Logger
}

// Samples are the next samples of one stream, and perhaps the end of its
// sequence.
type Samples struct {
	Stream string            // key: what the wildcards of the subject stand for, joined by dots
	X      []float32         // samples x channels, row-major; NaN = missing
	Times  []int64           // ns since 1970, one per sample, NoTime = none; or empty
	End    bool              // the sequence ends after the last sample
	Trace  map[string]string // traceparent and tracestate of what led to the samples; nil = none
}

// Label says what a part of a stream was: its samples from From until before To,
// or the sequence of the prediction with Seq and Row. Of labels with the same
// target and the same Who the last one counts.
type Label struct {
	Stream   string
	From, To int64  // ns since 1970
	Seq      uint64 // of the prediction; 0 = From and To count
	Row      uint32 // of that sample in the message
	Class    string // what it was; empty = an earlier label is withdrawn
	Who      string
	When     time.Time // zero = now
}

// LabelOf is a label of the sequence that a prediction is about.
func LabelOf(p *Prediction, class, who string) Label {
	return Label{Stream: p.Stream, Seq: p.Seq, Row: p.Row, Class: class, Who: who}
}

// Client is a connection to a job's server. Its methods may be called by several
// goroutines.
type Client struct {
	job  string
	log  *slog.Logger
	own  bool // nc is closed with the client
	nc   *nats.Conn
	js   jetstream.JetStream
	live *producer.Live // nil if the client only reads
}

// Connect connects to a server. It returns ctx's error as soon as ctx ends;
// afterwards the client does not depend on ctx. A connection that is lost is
// restored, without a limit of attempts.
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

// New makes a client of a connection, which stays the caller's. URL and NATS are
// not used. The connection should have nats.MaxReconnects(-1), and
// nats.ReconnectBufSize(-1) so that it sends nothing long after its time.
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

// Publish takes samples, all or none, and copies them. They are stored soon
// after: see Flush. While the buffer is full it waits, until ctx ends; its error
// means that nothing was taken.
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

// Flush sends what waits and returns when all that was taken before is stored.
func (c *Client) Flush(ctx context.Context) error {
	if c.live == nil {
		return nil
	}
	return withClosed(c.live.Flush(ctx))
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

// Label stores a label, and returns when it is stored. A label that is sent again
// is stored once, if its When is the same.
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
