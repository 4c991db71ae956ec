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

const growTime = time.Second // for which a message that is due waits for the answer of the previous one, where a Store keeps it

// Lanes publishes samples of many streams. It joins the samples of a stream into
// messages, numbers the messages, and publishes each until the server has stored it. A
// stream has at most one message in flight, so that no failure changes the order of the
// stream; meanwhile its next message grows. If the server takes nothing, one message
// at a time is tried.
//
// All calls come from one goroutine, or under one lock.
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
	unwritten []*Message // the Store did not take them yet

	ready  []*Lane // the next message may be published
	aside  []*Lane // the next message is tried again later; other streams continue
	flight map[*nats.Msg]*Lane
	flying int       // bytes in flight
	late   time.Time // when to look for messages that get no answer
	held   bool      // the server takes nothing: one message at a time is tried
	since  time.Time // when that began
	probe  time.Time // when to try the next one
}

// LanesOptions say how Lanes publishes.
type LanesOptions struct {
	Job        string
	Channels   []string      // of the samples, in order
	Rows       int           // samples that make a message full
	Latency    time.Duration // for how long a sample waits for others of its stream
	MaxMessage int           // bytes of a message; 0 = what the server takes
	Run        string        // names the process in message ids; empty: the incarnation does
	Store      Store         // of messages that have no answer; nil: memory
	Tracer     trace.Tracer  // optional: which messages are traced, and who takes their spans
	Log        *slog.Logger  // of a Live that resumes
	// Refused is called when a message is not stored. If it returns aside, only the
	// stream of the message waits; otherwise all streams do.
	Refused func(s *Lane, err error) (aside bool)
	// Taken is called when the server takes messages again, after so long. Optional.
	Taken func(after time.Duration)
}

// Store keeps numbered messages until the server has stored them.
type Store interface {
	Put(m *Message) error               // before m is published for the first time; the Store copies the payload
	Payload(m *Message) ([]byte, error) // of a message that was put; after an error its stream waits
	Done(m *Message)                    // the server has stored m
}

// Message is one message of a stream.
type Message struct {
	Subject, Incarnation string
	Seq                  uint64
	Payload              []byte   // empty where the Store has it
	End                  bool     // the sequence ends with it
	Unreadable           string   // why nobody can read Payload, which a device has sent; empty: it is samples
	Stored               []func() // called when the server has stored it
	Owner                any      // what the Store keeps of it

	lane    *Lane
	rows    int
	until   int64 // time of the stream's last sample
	written bool  // it may be published
	trace   trace.Context
	span    *trace.Span
}

// Lane is one stream.
type Lane struct {
	Key, Subject string
	Incarnation  string // of the next message
	Seq          uint64 // of the last message

	open    *open      // nil: no samples wait
	queue   []*Message // numbered, without an answer; the oldest first
	busy    bool       // the first of queue is in ready, aside or flight
	sent    time.Time
	refused time.Time // since when the server refuses the first of queue; zero: it does not
	again   time.Time // when a message that was set aside is tried again

	due   time.Time // when open gets its number
	place int       // in Lanes.due
	late  bool      // open was due while a message had no answer

	live *liveLane // nil: no lane of a Live
}

// open is a message that has no number yet.
type open struct {
	msg    *Message
	begun  time.Time
	rows   int
	x      []float32
	times  []int64
	ends   []bool
	timed  bool // its samples have times
	ending bool // one of ends is set
	raw    []byte
	traces []trace.Context // of the pieces that are traced
}

// Piece is what is added to a stream.
type Piece struct {
	X     []float32 // samples x channels, row-major
	Times []int64   // one per sample, or empty
	Ends  []bool    // one per sample, or empty: true ends the sequence after it
	End   bool      // the sequence ends after the last sample
	Alone bool      // it shares no message
	// Raw is the payload of a message that has no samples and cannot be read;
	// Unreadable says why.
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
		jetstream.WithPublishAsyncMaxPending(4*maxFlight), // ours is maxFlight; those given up count, too
		jetstream.WithPublishAsyncAckHandler(func(_ jetstream.JetStream, m *nats.Msg, ack *jetstream.PubAck) {
			l.Answers <- Answer{msg: m, seq: ack.Sequence}
		}),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) { l.Answers <- Answer{msg: m, err: err} }))
	if err != nil {
		return nil, fmt.Errorf("JetStream: %w", err)
	}
	return l, nil
}

// MessageBytes is a limit of the size of a message with so many samples.
func (l *Lanes) MessageBytes(rows int) int {
	return rows*l.rowBytes() + 2048 + 192*len(l.opt.Channels)
}

func (l *Lanes) rowBytes() int { return 4*len(l.opt.Channels) + 9 }

// IsWritten reports whether all samples have a number and are in the Store.
func (l *Lanes) IsWritten() bool { return len(l.due)+len(l.unwritten) == 0 }

// Open returns the message that the piece will be part of, and begins another one if the
// stream's open message cannot have the piece.
func (l *Lanes) Open(s *Lane, p *Piece, now time.Time) *Message {
	if s.open != nil && !l.fits(s.open, p) {
		l.seal(s)
	}
	if s.open == nil {
		s.open = opens.Get().(*open)
		s.open.msg, s.open.begun, s.open.timed, s.open.raw = &Message{lane: s, Unreadable: p.Unreadable}, now, len(p.Times) > 0, p.Raw
		s.due = now.Add(l.opt.Latency)
		heap.Push(&l.due, s)
	}
	return s.open.msg
}

// opens are open messages to be used again, for their slices.
var opens = sync.Pool{New: func() any { return new(open) }}

// fits reports whether a piece can be added to an open message.
func (l *Lanes) fits(o *open, p *Piece) bool {
	n := len(p.X) / len(l.opt.Channels)
	if p.Alone || o.timed != (len(p.Times) > 0) && n > 0 {
		return false
	}
	return l.MessageBytes(o.rows+n) <= l.MaxBytes
}

// Append adds the piece to the message that Open returned for it.
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
		l.seal(s)
	}
}

// seal gives the open message of a stream its number. If the Store does not take the
// message, it is not published before the Store does.
func (l *Lanes) seal(s *Lane) {
	o := s.open
	m := o.msg
	s.Seq++
	m.Subject, m.Incarnation, m.Seq, m.Payload, m.rows = s.Subject, s.Incarnation, s.Seq, l.encode(o), o.rows
	if s.live != nil {
		m.until = s.live.extend(o)
	}
	if l.opt.Tracer != nil {
		m.span = spanOf(l.opt.Tracer, l.opt.Job, s.Key, o)
	} else if len(o.traces) > 0 {
		m.trace = o.traces[0]
	}
	l.write(m)
	s.queue = append(s.queue, m)
	l.Enqueue(s)
	l.OpenBytes -= o.rows*l.rowBytes() + len(o.raw)
	l.Numbered++
	heap.Remove(&l.due, s.place)
	s.open, s.late = nil, false
	*o = open{x: o.x[:0], times: o.times[:0], ends: o.ends[:0], traces: o.traces[:0]}
	opens.Put(o)
}

// encode returns the payload of an open message. The next one overwrites it.
func (l *Lanes) encode(o *open) []byte {
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

// write puts a message into the Store, behind those that wait for it.
func (l *Lanes) write(m *Message) {
	if l.opt.Store != nil && len(l.unwritten) == 0 && l.opt.Store.Put(m) == nil {
		m.Payload, m.written = nil, true
		return
	}
	m.Payload = bytes.Clone(m.Payload)
	if m.written = l.opt.Store == nil; !m.written {
		l.unwritten = append(l.unwritten, m)
	}
}

// WriteAgain puts messages into the Store that it did not take before. It reports whether
// none is left.
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
		l.seal(l.due[0])
	}
}

// BreakOff makes the next message of a stream begin an incarnation, which the stage
// flags as a gap. A stream without any message has none.
func (l *Lanes) BreakOff(s *Lane, incarnation string) {
	if s.open != nil {
		l.seal(s)
	}
	if s.Seq > 0 {
		s.Incarnation, s.Seq = incarnation, 0
	}
}

// sealDue seals the messages that are due. One whose stream has a message without an
// answer grows instead. It returns how long nothing more is due.
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
		l.seal(s)
	}
	return math.MaxInt64
}

// dueLanes is a heap of streams by the time they are due.
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
