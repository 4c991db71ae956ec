package producer

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Defaults of LiveOptions.
const (
	DefaultLatency = 100 * time.Millisecond
	DefaultBuffer  = 1 << 16 // samples

	maxFlight = 512 // messages without an acknowledgement: more only wait in the server (pipeline's documentation)
)

// LiveOptions say how samples are published as they are taken.
type LiveOptions struct {
	Subject  string        // the job's input subject, names and all; empty = "sensors.*"
	Channels []string      // of the samples, in order
	Rows     int           // most samples in one message; 0 = DefaultRowsPerMessage
	Latency  time.Duration // for how long a sample waits for others of its stream; 0 = DefaultLatency, negative = not at all
	Buffer   int           // samples, of all streams, that are taken and not yet stored; 0 = DefaultBuffer
	// Resume makes a client that starts again continue its streams: it reads how
	// far the input has each of them, and leaves out the samples that are there.
	// Times name the samples, so each needs one, later than the one before. The
	// client needs the right to read Job's input. Nobody else may publish under
	// its streams' keys: the first of two such clients to notice ends with an
	// error. Without Resume each start is a new incarnation.
	Resume bool
	Job    string       // needed to resume; empty = "eusn"
	Log    *slog.Logger // optional
	// Stored is called when the server has stored the next so many samples of a
	// stream, in their order, from one goroutine. It must not block, nor call
	// the Live. Optional.
	Stored func(stream string, samples int)
}

var (
	// ErrClosed is what a Live returns after Close.
	ErrClosed = errors.New("closed")
	// ErrBufferFull means that a context ended while Publish waited for room.
	ErrBufferFull = errors.New("the buffer is full")
)

// Live publishes samples as they are taken. It joins the samples of a stream
// into messages, by number and by latency, and numbers the messages. Each stream
// has at most one message in flight, so that no failure changes its order; while
// that waits for its acknowledgement, the next one grows. What the server does
// not take is sent again until it does: nothing that was taken is dropped.
//
// All methods may be called by several goroutines. The order of one stream's
// samples is that of its Publish calls.
type Live struct {
	opt      LiveOptions
	js       jetstream.JetStream
	input    jetstream.Stream // nil unless Resume
	form     form
	run      string     // names this run in message ids
	claiming sync.Mutex // of the streams that are looked up in the input
	answers  chan liveAnswer
	wake     chan struct{} // something is due earlier than the loop knows
	ended    chan struct{} // the loop has

	mu      sync.Mutex
	change  *sync.Cond // held fell, or fault or closing was set
	streams map[string]*lane
	due     lanes
	held    int // samples and ends taken and not stored
	flushes int // Flush calls that wait
	closing bool
	fault   error // why nothing more is published

	flight  flight // of the loop's goroutine, as all below
	reached bool   // the server has stored something
	refused refusals
}

// form is where messages go, and what they look like.
type form struct {
	pattern  wire.Pattern
	encoders [2]*codec.InputEncoder // without, with times; of the loop's goroutine
}

// flight is what waits for an answer.
type flight struct {
	streams map[*nats.Msg]*lane
	bytes   int
}

// NewLive begins. nc must outlive it; Close ends it.
func NewLive(ctx context.Context, nc *nats.Conn, o LiveOptions) (*Live, error) {
	o.Subject = cmp.Or(o.Subject, wire.DefaultInputSubject)
	o.Rows = cmp.Or(o.Rows, DefaultRowsPerMessage)
	o.Latency = cmp.Or(o.Latency, DefaultLatency)
	o.Buffer = cmp.Or(o.Buffer, DefaultBuffer)
	o.Job = cmp.Or(o.Job, wire.DefaultJob)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	pattern, err := wire.ParsePattern(o.Subject)
	if err != nil {
		return nil, fmt.Errorf("producer: %w", err)
	}
	if o.Rows < 1 || o.Buffer < o.Rows {
		return nil, fmt.Errorf("producer: %d samples in a message, %d in the buffer: want 1 or more, and room for a message", o.Rows, o.Buffer)
	}
	l := &Live{
		opt: o, form: form{pattern: pattern}, run: nuid.Next(), streams: map[string]*lane{}, flight: flight{streams: map[*nats.Msg]*lane{}},
		answers: make(chan liveAnswer, 4*maxFlight), wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	l.change = sync.NewCond(&l.mu)
	if err := l.open(ctx, nc); err != nil {
		return nil, err
	}
	go l.loop()
	return l, nil
}

func (l *Live) open(ctx context.Context, nc *nats.Conn) error {
	for i := range l.form.encoders {
		var err error
		if l.form.encoders[i], err = codec.NewInputEncoder(l.opt.Channels, codec.InputOptions{Times: i == 1}); err != nil {
			return fmt.Errorf("producer: %w", err)
		}
	}
	ch := len(l.opt.Channels)
	largest, err := l.form.encoders[1].Encode(&codec.Batch{Rows: l.opt.Rows, X: make([]float32, l.opt.Rows*ch), Times: make([]int64, l.opt.Rows)})
	if err != nil {
		return fmt.Errorf("producer: %w", err)
	}
	if most := int(nc.MaxPayload()) - headerRoom; len(largest) > most {
		return fmt.Errorf("producer: %d samples make a message of %d bytes, the server takes %d: put fewer samples into a message", l.opt.Rows, len(largest), most)
	}
	l.js, err = jetstream.New(nc, jetstream.WithPublishAsyncTimeout(answerTimeout),
		jetstream.WithPublishAsyncMaxPending(4*maxFlight), // ours is maxFlight; those given up count, too
		jetstream.WithPublishAsyncAckHandler(func(_ jetstream.JetStream, m *nats.Msg, ack *jetstream.PubAck) {
			l.answers <- liveAnswer{msg: m, seq: ack.Sequence}
		}),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) { l.answers <- liveAnswer{msg: m, err: err} }))
	if err != nil {
		return fmt.Errorf("producer: JetStream: %w", err)
	}
	if l.opt.Resume {
		l.input, err = openInput(ctx, l.js, l.opt.Job)
	}
	return err
}

// Publish takes the samples of an item, all or none, and its end. It copies
// them, and returns before they are stored: see Flush, and LiveOptions.Stored.
// While the buffer is full it waits, until ctx ends; its error then means that
// nothing of the item was taken.
func (l *Live) Publish(ctx context.Context, it Item) error {
	s, err := l.laneOf(ctx, it.Stream)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, l.rouse)()
	l.mu.Lock()
	defer l.mu.Unlock()
	// Waiting ends with the lock held, so what is checked stays true.
	for {
		if err := l.unusable(); err != nil {
			return err
		}
		piece, err := s.check(&it, len(l.opt.Channels), l.opt.Resume)
		switch n := piece.count(); {
		case err != nil:
			return err
		case n > l.opt.Buffer:
			return fmt.Errorf("producer: stream %q: %d samples at once, and room for %d: publish fewer at a time, or make Buffer larger", it.Stream, n, l.opt.Buffer)
		case l.held+n <= l.opt.Buffer:
			l.take(s, piece)
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("producer: stream %q: nothing taken: %w: %d samples wait to be stored: %w", it.Stream, ErrBufferFull, l.held, ctx.Err())
		}
		l.change.Wait()
	}
}

// Flush sends what waits, and returns when all that was taken before is stored,
// or with an error when ctx ends.
func (l *Live) Flush(ctx context.Context) error {
	defer context.AfterFunc(ctx, l.rouse)()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flushes++
	defer func() { l.flushes-- }()
	want := map[*lane]uint64{}
	for _, s := range l.streams {
		if s.stored < s.taken {
			want[s] = s.taken
			l.schedule(s)
		}
	}
	for {
		for s, taken := range want {
			if s.stored >= taken {
				delete(want, s)
			}
		}
		switch {
		case len(want) == 0:
			return nil
		case l.fault != nil:
			return l.fault
		case l.over():
			return ErrClosed
		case ctx.Err() != nil:
			return fmt.Errorf("producer: %d samples are not stored yet: %w", l.held, ctx.Err())
		}
		l.change.Wait()
	}
}

// Close takes no more samples, sends what waits, and ends when all is stored or
// ctx ends. Its error says how many samples are not known to be stored.
func (l *Live) Close(ctx context.Context) error {
	l.mu.Lock()
	l.closing = true
	l.change.Broadcast()
	l.mu.Unlock()
	err := l.Flush(ctx)
	l.mu.Lock()
	if l.fault == nil {
		l.fault = ErrClosed // ends the loop
	}
	l.mu.Unlock()
	l.nudge()
	<-l.ended
	return err
}

// over reports whether the loop has ended. l.mu is held.
func (l *Live) over() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// unusable is why nothing is taken. l.mu is held.
func (l *Live) unusable() error {
	if l.fault != nil {
		return l.fault
	}
	if l.closing {
		return ErrClosed
	}
	return nil
}

// take adds a piece to a stream. l.mu is held.
func (l *Live) take(s *lane, p piece) {
	if p.count() == 0 { // the input has it already
		s.seen = p.seen
		return
	}
	if s.waiting() == 0 {
		s.since = time.Now()
	}
	s.add(p)
	l.held += p.count()
	l.schedule(s)
}

// schedule notes when a stream's next message is due. l.mu is held.
func (l *Live) schedule(s *lane) {
	if s.msg != nil || s.waiting() == 0 { // its answer schedules the next one
		return
	}
	due := s.since.Add(l.opt.Latency)
	if l.flushes > 0 || l.closing || s.full(l.opt.Rows) {
		due = time.Time{}
	}
	l.put(s, due)
}

// put sets when the loop looks at a stream. l.mu is held.
func (l *Live) put(s *lane, due time.Time) {
	if s.place >= 0 && s.due.Equal(due) {
		return
	}
	s.due = due
	if s.place < 0 {
		heap.Push(&l.due, s)
	} else {
		heap.Fix(&l.due, s.place)
	}
	if s.place == 0 {
		l.nudge()
	}
}

// nudge makes the loop look again.
func (l *Live) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// rouse lets those who wait look at their contexts.
func (l *Live) rouse() {
	l.mu.Lock()
	l.change.Broadcast()
	l.mu.Unlock()
}
