package gateway

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/eusn-stream/eusn-stream/internal/gateway/internal/outbox"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/producer"
	"github.com/eusn-stream/eusn-stream/internal/trace"
)

// Defaults and limits.
const (
	DefaultRows        = 256
	DefaultLatency     = 20 * time.Millisecond
	DefaultOutboxBytes = 1 << 30
	DefaultStopTimeout = 10 * time.Second

	atOnce       = 256                    // messages and answers between two checks of due batches
	probeEvery   = 250 * time.Millisecond // while the gateway holds back
	questions    = 64                     // to the server at a time, at the start
	openBytes    = 256 << 20              // of samples without a number
	keyWindow    = 65536                  // HTTP idempotency keys remembered
	brokerWindow = 60000                  // remembered messages of another broker: fewer than packet ids, which brokers use in turn
)

// Names of sessions shared by an input's messages.
const (
	HTTPSession   = "http"   // of requests with an idempotency key
	BrokerSession = "broker" // of messages delivered by another broker
)

// Config is the configuration of a gateway.
type Config struct {
	Job     string          // empty = "eusn"
	Subject string          // the job's input subject; empty = "sensors.*"
	Keys    *names.Patterns // patterns of the job's keys; nil: any key
	// NewStreams is how many streams new to the input the senders at one address may
	// begin within a minute; 0 = any number.
	NewStreams int
	Channels   []string // of the samples, in order
	Decoder    Decoder  // of payloads
	Values     Values   // of messages with a single value each, instead of Decoder; nil: none
	// Reads returns an error if the gateway's Arrow messages do not match the job's
	// input format (wire.Entry's Input). nil: no check.
	Reads       func(input string) error
	Lines       Decoder       // of line protocol
	Dir         string        // of the outbox, which one process uses at a time
	OutboxBytes int64         // the gateway stops accepting at this size of the outbox; 0 = DefaultOutboxBytes
	Rows        int           // samples that make a batch full; 0 = DefaultRows
	Latency     time.Duration // how long a sample waits for others; 0 = DefaultLatency
	StopTimeout time.Duration // how long the end waits for the server; 0 = DefaultStopTimeout
	MaxMessage  int           // largest message to the server, bytes; 0 = the server's limit
	Tracer      trace.Tracer  // optional: selects traced batches, and receives their spans
	Log         *slog.Logger  // optional
	entryEvery  time.Duration // 0 = entryEvery; other values only in tests
}

// Gateway receives and publishes messages of devices. Take may be called by many
// goroutines; everything else belongs to the goroutine of Run.
type Gateway struct {
	cfg   Config
	stats counters
	doors doors
	job   job
	told  complaints

	js          jetstream.JetStream
	out         *outbox.Log
	lanes       *producer.Lanes
	incarnation string // of keys without an incarnation
	streams     map[string]*stream
	hold        hold
}

// doors are the ways into Run.
type doors struct {
	messages chan taken
	sessions chan string   // to be forgotten
	end      chan struct{} // closed when Run takes nothing more
}

// New opens the outbox. The gateway publishes on nc.
func New(nc *nats.Conn, c Config) (*Gateway, error) {
	c.Job = cmp.Or(c.Job, wire.DefaultJob)
	c.Subject = cmp.Or(c.Subject, wire.DefaultInputSubject)
	c.Rows = cmp.Or(c.Rows, DefaultRows)
	c.Latency = cmp.Or(c.Latency, DefaultLatency)
	c.OutboxBytes = cmp.Or(c.OutboxBytes, DefaultOutboxBytes)
	c.StopTimeout = cmp.Or(c.StopTimeout, DefaultStopTimeout)
	c.entryEvery = cmp.Or(c.entryEvery, entryEvery)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	g := &Gateway{
		cfg: c, doors: doors{make(chan taken), make(chan string), make(chan struct{})}, incarnation: nuid.Next(),
		streams: map[string]*stream{}, told: complaints{log: c.Log},
	}
	g.job.begun.most = c.NewStreams
	var err error
	if g.job.pattern, err = wire.ParsePattern(c.Subject); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g.lanes, err = producer.NewLanes(nc, producer.LanesOptions{Job: c.Job, Channels: c.Channels, Rows: c.Rows, Latency: c.Latency, MaxMessage: c.MaxMessage,
		Store: store{g}, Tracer: c.Tracer, Refused: g.judgeRefusal, Taken: g.serverTakes})
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	if g.js, err = jetstream.New(nc); err != nil {
		return nil, fmt.Errorf("gateway: JetStream: %w", err)
	}
	log, left, err := outbox.Open(c.Dir, map[string]int{HTTPSession: keyWindow, BrokerSession: brokerWindow}, c.Log)
	if err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g.out = log
	if err := log.WriteAgain(); err != nil {
		g.diskFailed(err)
	}
	for _, b := range left {
		b.Message.Owner = b
		g.lanes.Load(g.streamOf(g.keyOf(b.Message.Subject)).lane, b.Message)
	}
	if len(left) > 0 {
		c.Log.Info("messages of the previous run are published first, with their own numbers", "messages", len(left))
	}
	return g, nil
}

// Sessions returns the devices in the outbox, by the session names of their messages.
// Call it before Run.
func (g *Gateway) Sessions() []string { return g.out.Sessions.Names() }

// Run publishes until ctx ends. Then it accepts nothing more, and waits for the
// server's answers for the configured time. Unanswered batches stay in the outbox for
// the next run.
func (g *Gateway) Run(ctx context.Context) error {
	defer g.endOutbox()
	err := g.findInput(ctx)
	if err == nil {
		err = g.compareLeft(ctx)
	}
	if err != nil {
		close(g.doors.end)
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("gateway: %w", err)
	}
	g.stats.held.Store(g.hold.disk)
	wrong := make(chan error, 1)
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	if g.cfg.Reads != nil {
		if err := g.compareJob(ctx); err != nil {
			close(g.doors.end)
			return err
		}
		go g.watchJob(watching, wrong)
	}
	return g.serveInputs(ctx, wrong)
}

// serveInputs publishes device messages until ctx ends, or wrong reports another input
// format.
func (g *Gateway) serveInputs(ctx context.Context, wrong <-chan error) error {
	stopping := ctx.Done()
	var late <-chan time.Time
	for {
		wait := g.pumpLanes(time.Now())
		g.noteOutbox()
		if late != nil && g.isEmpty() {
			return nil
		}
		in := g.doors.messages
		if late != nil || g.isFull() {
			in = nil
		}
		select {
		case t := <-in:
			g.addMessage(&t, time.Now())
		case a := <-g.lanes.Answers:
			g.lanes.Answered(a)
		case s := <-g.doors.sessions:
			g.forgetSession(s)
		case err := <-wrong:
			if stopping != nil {
				close(g.doors.end)
			}
			return err
		case <-timerAfter(wait):
		case <-late:
			g.cfg.Log.Warn("stopped before the server acknowledged all messages: the next run publishes the messages in the outbox", "messages", g.out.Waiting(), "why", g.hold.why)
			return nil
		case <-stopping:
			stopping = nil
			late = g.closeDoors()
		}
		g.drainTaken(in)
	}
}

// timerAfter is time.After; a wait of math.MaxInt64 has no end.
func timerAfter(wait time.Duration) <-chan time.Time {
	if wait == math.MaxInt64 {
		return nil
	}
	return time.After(wait)
}

// isEmpty reports whether nothing waits for the server.
func (g *Gateway) isEmpty() bool { return g.lanes.IsWritten() && g.out.Waiting() == 0 }

// forgetSession forgets a session of a device.
func (g *Gateway) forgetSession(session string) {
	if err := g.out.Forget(session); err != nil {
		g.diskFailed(err)
	}
}

// closeDoors stops accepting messages, and numbers all batches. The returned channel
// reports the end of the time for answers.
func (g *Gateway) closeDoors() (late <-chan time.Time) {
	close(g.doors.end)
	g.lanes.Seal()
	return time.After(g.cfg.StopTimeout)
}

// drainTaken processes available messages and answers, up to a limit. A nil channel has
// no messages.
func (g *Gateway) drainTaken(in <-chan taken) {
	for range atOnce {
		if g.isFull() {
			in = nil
		}
		select {
		case t := <-in:
			g.addMessage(&t, time.Now())
		case a := <-g.lanes.Answers:
			g.lanes.Answered(a)
		default:
			return
		}
	}
}

// endOutbox closes the outbox and marks it as complete.
func (g *Gateway) endOutbox() {
	if err := g.out.End(); err != nil {
		g.cfg.Log.Warn("the end of the outbox cannot be written: after a power failure, numbers may restart at 1", "err", err)
	}
	g.out.Close()
}

// isFull reports whether the gateway takes nothing for want of room.
func (g *Gateway) isFull() bool {
	return g.hold.disk || g.lanes.OpenBytes > openBytes || g.out.Bytes()+int64(g.lanes.OpenBytes) > g.cfg.OutboxBytes
}

func (g *Gateway) streamOf(key string) *stream {
	s := g.streams[key]
	if s == nil {
		subject := g.subjectOf(key)
		last := g.out.Number(subject)
		s = &stream{lane: &producer.Lane{Key: key, Subject: subject, Incarnation: last.Incarnation, Seq: last.Seq}, doubt: last.Doubt}
		g.streams[key] = s
	}
	return s
}
