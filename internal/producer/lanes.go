package producer

import (
	"bytes"
	"container/heap"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/trace"
)

const growTime = time.Second // how long a due message waits for the answer of the previous message, with a Store

// Lanes publishes samples of many streams. Lanes joins the samples of a stream into
// messages, numbers the messages, and publishes each message until the server has stored
// the message. A stream has at most one message in flight, so that no failure changes the
// order of the stream; meanwhile the next message grows. If the server accepts nothing,
// one message at a time is tried.
//
// All calls come from a single goroutine, or under a common lock.
type Lanes struct {
	Answers   chan Answer // to messages in flight, for Answered
	MaxBytes  int         // of a message
	OpenBytes int         // of samples without a number
	Numbered  uint64      // messages

	opt      LanesOptions
	js       jetstream.JetStream
	input    jetstream.Stream       // nil unless a Live resumes
	encoders [4]*codec.InputEncoder // by times, ends
	grow     time.Duration

	due       dueLanes   // streams with an open message
	unwritten []*Message // messages that the Store has not accepted yet

	ready  []*Lane // the next message may be published
	aside  []*Lane // streams with a message set aside; other streams continue
	flight map[*nats.Msg]*Lane
	flying int       // bytes in flight
	late   time.Time // time of the next check for messages without an answer
	held   bool      // the server accepts nothing: one message at a time is tried
	since  time.Time // beginning of held
	probe  time.Time // time of the next attempt
}

// LanesOptions are the options of Lanes.
type LanesOptions struct {
	Job        string
	Channels   []string      // of the samples, in order
	Rows       int           // samples that make a message full
	Latency    time.Duration // how long a sample waits for others of its stream
	MaxMessage int           // largest message, bytes; 0 = the server's limit
	Run        string        // names the process in message ids; empty: the incarnation does
	Store      Store         // of messages without an answer; nil: memory
	Tracer     trace.Tracer  // optional: selects traced messages, and receives their spans
	Log        *slog.Logger  // of a Live that resumes
	// Refused is called when a message is not stored. If it returns aside, only the
	// stream of the message waits; otherwise all streams do.
	Refused func(s *Lane, err error) (aside bool)
	// Taken is called after an outage when the server accepts messages, with the length
	// of the outage. Optional.
	Taken func(after time.Duration)
}

// Store keeps numbered messages until the server has stored them.
type Store interface {
	Put(m *Message) error               // before m is published for the first time; the Store copies the payload
	Payload(m *Message) ([]byte, error) // of a stored message; after an error its stream waits
	Done(m *Message)                    // the server has stored m
}

// Message is a message of a stream.
type Message struct {
	Subject, Incarnation string
	Seq                  uint64
	Payload              []byte   // empty if the Store has it
	End                  bool     // the message ends the sequence
	Unreadable           string   // the reason why a device's Payload is unreadable; empty: Payload contains samples
	Stored               []func() // called when the server has stored it
	Owner                any      // data of the Store

	lane    *Lane
	rows    int
	until   int64 // time of the stream's last sample
	written bool  // it may be published
	trace   trace.Context
	span    *trace.Span
}

// Lane is a stream.
type Lane struct {
	Key, Subject string
	Incarnation  string // of the next message
	Seq          uint64 // of the last message

	open    *open      // nil: no samples wait
	queue   []*Message // numbered, without an answer; the oldest first
	busy    bool       // the first of queue is in ready, aside or flight
	sent    time.Time
	refused time.Time // since when the server refuses the first message of queue; zero: not refused
	again   time.Time // time of the next attempt for a message set aside

	due   time.Time // time for giving open its number
	place int       // in Lanes.due
	late  bool      // open was due while a message had no answer

	live *liveLane // nil: no lane of a Live
}

// open is a message without a number.
type open struct {
	msg    *Message
	begun  time.Time
	rows   int
	x      []float32
	times  []int64
	ends   []bool
	timed  bool // its samples have times
	ending bool // at least one of ends is set
	raw    []byte
	traces []trace.Context // of the traced pieces
}

// Piece is an addition to a stream.
type Piece struct {
	X     []float32 // samples x channels, row-major
	Times []int64   // one per sample, or empty
	Ends  []bool    // one per sample, or empty: true ends the sequence after the sample
	End   bool      // the sequence ends after the last sample
	Alone bool      // the piece gets its own message
	// Raw is the payload of an unreadable message without samples; Unreadable is the
	// reason.
	Raw        []byte
	Unreadable string
	Trace      trace.Context
}

// NewLanes publishes on nc.
func NewLanes(nc *nats.Conn, o LanesOptions) (*Lanes, error) {
	l := &Lanes{
		opt: o, flight: map[*nats.Msg]*Lane{}, Answers: make(chan Answer, 4*maxFlight), grow: growTime,
		MaxBytes: int(nc.MaxPayload()) - headerRoom,
	}
	if o.MaxMessage > 0 {
		l.MaxBytes = min(l.MaxBytes, o.MaxMessage-headerRoom)
	}
	if o.Store == nil {
		l.grow = math.MaxInt64
	}
	var err error
	for i := range l.encoders {
		if l.encoders[i], err = codec.NewInputEncoder(o.Channels, codec.InputOptions{Times: i&1 != 0, Ends: i&2 != 0}); err != nil {
			return nil, err
		}
	}
	l.js, err = jetstream.New(nc, jetstream.WithPublishAsyncTimeout(answerTimeout),
		jetstream.WithPublishAsyncMaxPending(4*maxFlight), // the limit here is maxFlight; abandoned messages count, too
		jetstream.WithPublishAsyncAckHandler(func(_ jetstream.JetStream, m *nats.Msg, ack *jetstream.PubAck) {
			l.Answers <- Answer{msg: m, seq: ack.Sequence}
		}),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) { l.Answers <- Answer{msg: m, err: err} }))
	if err != nil {
		return nil, fmt.Errorf("JetStream: %w", err)
	}
	return l, nil
}

// MessageBytes returns an upper bound of a message's size by its samples.
func (l *Lanes) MessageBytes(rows int) int {
	return rows*l.rowBytes() + 2048 + 192*len(l.opt.Channels)
}

func (l *Lanes) rowBytes() int { return 4*len(l.opt.Channels) + 9 }

// IsWritten reports whether all samples have a number and are in the Store.
func (l *Lanes) IsWritten() bool { return len(l.due)+len(l.unwritten) == 0 }

// Open returns the message for the piece, and begins a new message if the stream's open
// message cannot include the piece.
func (l *Lanes) Open(s *Lane, p *Piece, now time.Time) *Message {
	if s.open != nil && !l.fitsOpen(s.open, p) {
		l.sealOpen(s)
	}
	if s.open == nil {
		s.open = opens.Get().(*open)
		s.open.msg, s.open.begun, s.open.timed, s.open.raw = &Message{lane: s, Unreadable: p.Unreadable}, now, len(p.Times) > 0, p.Raw
		s.due = now.Add(l.opt.Latency)
		heap.Push(&l.due, s)
	}
	return s.open.msg
}

// opens are reusable open messages, for their slices.
var opens = sync.Pool{New: func() any { return new(open) }}

// fitsOpen reports whether a piece can be added to an open message.
func (l *Lanes) fitsOpen(o *open, p *Piece) bool {
	n := len(p.X) / len(l.opt.Channels)
	if p.Alone || o.timed != (len(p.Times) > 0) && n > 0 {
		return false
	}
	return l.MessageBytes(o.rows+n) <= l.MaxBytes
}

// Append adds the piece to the message from Open.
func (l *Lanes) Append(s *Lane, p *Piece) {
	o := s.open
	if l.opt.Tracer == nil && len(o.traces) == 0 && p.Trace.Valid() || l.opt.Tracer != nil && p.Trace.Sampled() && len(o.traces) < trace.MostLinks {
		o.traces = append(o.traces, p.Trace)
	}
	n := len(p.X) / len(l.opt.Channels)
	o.x = append(o.x, p.X...)
	o.times = append(o.times, p.Times...)
	for i := range n {
		end := len(p.Ends) > 0 && p.Ends[i]
		o.ends = append(o.ends, end)
		o.ending = o.ending || end
	}
	o.rows += n
	o.msg.End = p.End
	l.OpenBytes += n*l.rowBytes() + len(p.Raw)
	if o.rows >= l.opt.Rows || p.Alone || p.End {
		l.sealOpen(s)
	}
}

// sealOpen numbers the open message of a stream. If the Store does not accept the
// message, it is published only after the Store does.
func (l *Lanes) sealOpen(s *Lane) {
	o := s.open
	m := o.msg
	s.Seq++
	m.Subject, m.Incarnation, m.Seq, m.Payload, m.rows = s.Subject, s.Incarnation, s.Seq, l.encodeOpen(o), o.rows
	if s.live != nil {
		m.until = s.live.extendOpen(o)
	}
	if l.opt.Tracer != nil {
		m.span = spanOf(l.opt.Tracer, l.opt.Job, s.Key, o)
	} else if len(o.traces) > 0 {
		m.trace = o.traces[0]
	}
	l.writeMessage(m)
	s.queue = append(s.queue, m)
	l.Enqueue(s)
	l.OpenBytes -= o.rows*l.rowBytes() + len(o.raw)
	l.Numbered++
	heap.Remove(&l.due, s.place)
	s.open, s.late = nil, false
	*o = open{x: o.x[:0], times: o.times[:0], ends: o.ends[:0], traces: o.traces[:0]}
	opens.Put(o)
}

// encodeOpen returns the payload of an open message. The next call overwrites the
// payload.
func (l *Lanes) encodeOpen(o *open) []byte {
	if o.raw != nil {
		return o.raw
	}
	i := 0
	in := codec.Batch{Rows: o.rows, X: o.x}
	if o.timed {
		i, in.Times = 1, o.times
	}
	if o.ending {
		i, in.Ends = i|2, o.ends
	}
	payload, err := l.encoders[i].Encode(&in)
	if err != nil {
		panic(fmt.Sprintf("producer: %v", err)) // the caller has checked the lengths
	}
	return payload
}

// writeMessage puts a message into the Store, after earlier waiting messages.
func (l *Lanes) writeMessage(m *Message) {
	if l.opt.Store != nil && len(l.unwritten) == 0 && l.opt.Store.Put(m) == nil {
		m.Payload, m.written = nil, true
		return
	}
	m.Payload = bytes.Clone(m.Payload)
	if m.written = l.opt.Store == nil; !m.written {
		l.unwritten = append(l.unwritten, m)
	}
}

// WriteAgain retries to put messages into the Store. WriteAgain reports whether all are
// written.
func (l *Lanes) WriteAgain() bool {
	for ; len(l.unwritten) > 0; l.unwritten = l.unwritten[1:] {
		m := l.unwritten[0]
		if l.opt.Store.Put(m) != nil {
			return false
		}
		m.Payload, m.written = nil, true
		l.Enqueue(m.lane)
	}
	return true
}

// Seal gives all open messages their numbers.
func (l *Lanes) Seal() {
	for len(l.due) > 0 {
		l.sealOpen(l.due[0])
	}
}

// BreakOff makes the next message of a stream begin an incarnation, which the stage
// flags as a gap. A stream without any message has none.
func (l *Lanes) BreakOff(s *Lane, incarnation string) {
	if s.open != nil {
		l.sealOpen(s)
	}
	if s.Seq > 0 {
		s.Incarnation, s.Seq = incarnation, 0
	}
}

// sealDue seals the due messages. While a stream has an unanswered message, the open
// message grows instead. The result is the time until the next due message.
func (l *Lanes) sealDue(now time.Time) time.Duration {
	for len(l.due) > 0 {
		s := l.due[0]
		if left := s.due.Sub(now); left > 0 {
			return left
		}
		if len(s.queue) > 0 && !s.late {
			s.late, s.due = true, s.open.begun.Add(l.grow)
			heap.Fix(&l.due, 0)
			continue
		}
		l.sealOpen(s)
	}
	return math.MaxInt64
}

// dueLanes is a heap of streams by due time.
type dueLanes []*Lane

func (q dueLanes) Len() int           { return len(q) }
func (q dueLanes) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q dueLanes) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}
func (q *dueLanes) Push(x any) {
	s := x.(*Lane)
	s.place = len(*q)
	*q = append(*q, s)
}
func (q *dueLanes) Pop() any {
	old := *q
	s := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return s
}
