package producer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Defaults of LiveOptions.
const (
	DefaultLatency = 100 * time.Millisecond
	DefaultBuffer  = 1 << 16 // samples
)

// LiveOptions are the options of a Live.
type LiveOptions struct {
	Subject  string        // the job's input subject, names and all; empty = "sensors.*"
	Channels []string      // of the samples, in order
	Rows     int           // most samples in one message; 0 = DefaultRowsPerMessage
	Latency  time.Duration // how long a sample waits for others of its stream; 0 = DefaultLatency, negative = not at all
	Buffer   int           // samples, of all streams, that are accepted and not yet stored; 0 = DefaultBuffer
	// Resume makes a restarted client continue the streams: the client reads the position
	// of each stream in the input, and skips samples already stored. Times identify the
	// samples, so each needs a time, later than the previous one. The client needs the
	// right to read Job's input. Only this client may publish under the streams' keys:
	// the first of two clients to notice the conflict ends with an error. Without Resume
	// each start is a new incarnation.
	Resume bool
	Job    string       // needed to resume; empty = "eusn"
	Log    *slog.Logger // optional
	// Stored is called when the server has stored the next samples of a stream, in their
	// order, from one goroutine. Stored must not block, nor call the Live. Optional.
	Stored func(stream string, samples int)
}

var (
	// ErrClosed is returned by a Live after Close.
	ErrClosed = errors.New("closed")
	// ErrBufferFull reports the end of a context while Publish waited for room.
	ErrBufferFull = errors.New("the buffer is full")
)

// Live publishes samples during the measurement, with Lanes that keep messages in memory.
// A refused message is republished until the server accepts the message: no accepted
// sample is dropped.
//
// All methods may be called by several goroutines. The samples of a stream keep the order
// of the Publish calls.
type Live struct {
	opt      LiveOptions
	pattern  wire.Pattern
	run      string        // names this run in message ids
	claiming sync.Mutex    // of the streams being looked up in the input
	wake     chan struct{} // signals an earlier due time to the loop
	ended    chan struct{} // the loop has

	mu      sync.Mutex
	change  *sync.Cond // held fell, or fault or closing was set
	lanes   *Lanes
	streams map[string]*liveLane
	held    int // samples and ends taken and not stored
	closing bool
	fault   error // why nothing more is published
	reached bool  // the server has stored something
	refused refusals
}

// NewLive begins publishing. nc must outlive the Live; Close ends the publishing.
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
	l := &Live{opt: o, pattern: pattern, run: nuid.Next(), streams: map[string]*liveLane{}, wake: make(chan struct{}, 1), ended: make(chan struct{}), refused: refusals{log: o.Log}}
	l.change = sync.NewCond(&l.mu)
	l.lanes, err = NewLanes(nc, LanesOptions{Job: o.Job, Channels: o.Channels, Rows: o.Rows, Latency: o.Latency, Run: l.run, Log: o.Log, Refused: l.refuseMessage})
	if err != nil {
		return nil, fmt.Errorf("producer: %w", err)
	}
	if n := l.lanes.MessageBytes(o.Rows); n > l.lanes.MaxBytes {
		return nil, fmt.Errorf("producer: %d samples make a message of %d bytes, the server takes %d: put fewer samples into a message", o.Rows, n, l.lanes.MaxBytes)
	}
	if o.Resume {
		if l.lanes.input, err = openInput(ctx, l.lanes.js, o.Job); err != nil {
			return nil, err
		}
	}
	go l.runLoop()
	return l, nil
}

// Publish accepts the samples and the end of an item, all or none. Publish copies the
// samples, and returns before the server has stored the copies: see Flush, and
// LiveOptions.Stored. With a full buffer, Publish waits until ctx ends; the error then
// means that no sample of the item was accepted.
func (l *Live) Publish(ctx context.Context, it Item) error {
	s, err := l.laneOf(ctx, it.Stream)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, l.wakeWaiters)()
	l.mu.Lock()
	defer l.mu.Unlock()
	// Waiting ends with the lock held, so the checked conditions stay true.
	for {
		if err := l.unusableError(); err != nil {
			return err
		}
		piece, seen, err := s.pieceOf(&it, len(l.opt.Channels), l.opt.Resume)
		switch n := piece.countRows(len(l.opt.Channels)); {
		case err != nil:
			return err
		case n > l.opt.Buffer:
			return fmt.Errorf("producer: stream %q: %d samples at once, and room for %d: publish fewer at a time, or make Buffer larger", it.Stream, n, l.opt.Buffer)
		case l.held+n <= l.opt.Buffer:
			s.seen = seen
			if n > 0 { // otherwise the input already has it
				l.queuePiece(s, piece, n)
			}
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("producer: stream %q: nothing taken: %w: %d samples wait to be stored: %w", it.Stream, ErrBufferFull, l.held, ctx.Err())
		}
		l.change.Wait()
	}
}

// Flush sends waiting samples, and returns when all samples accepted before are stored,
// or with an error when ctx ends.
func (l *Live) Flush(ctx context.Context) error {
	defer context.AfterFunc(ctx, l.wakeWaiters)()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lanes.Seal()
	l.wakeLoop()
	want := map[*liveLane]uint64{}
	for _, s := range l.streams {
		if s.stored < s.taken {
			want[s] = s.taken
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
		case l.isOver():
			return ErrClosed
		case ctx.Err() != nil:
			return fmt.Errorf("producer: %d samples are not stored yet: %w", l.held, ctx.Err())
		}
		l.change.Wait()
	}
}

// Close accepts no more samples, sends waiting samples, and ends when all are stored or
// ctx ends. Its error counts the samples not known to be stored.
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
	l.wakeLoop()
	<-l.ended
	return err
}

// isOver reports whether the loop has ended. l.mu is held.
func (l *Live) isOver() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// unusableError is why nothing is taken. l.mu is held.
func (l *Live) unusableError() error {
	if l.fault != nil {
		return l.fault
	}
	if l.closing {
		return ErrClosed
	}
	return nil
}

// queuePiece adds a piece with n samples and ends to a stream. l.mu is held.
func (l *Live) queuePiece(s *liveLane, p Piece, n int) {
	s.taken += uint64(n)
	l.held += n
	channels, now, ready := len(l.opt.Channels), time.Now(), len(l.lanes.ready)
	first := s.lane.open == nil
	for rest := true; rest; rest = len(p.X) > 0 {
		room := l.opt.Rows
		if s.lane.open != nil {
			room -= s.lane.open.rows
		}
		part := p.cutRows(room, channels)
		m := l.lanes.Open(s.lane, &part, now)
		if len(m.Stored) == 0 {
			m.Stored = []func(){func() { l.storedNow(s, m) }}
		}
		l.lanes.Append(s.lane, &part)
	}
	if len(l.lanes.ready) > ready || first && s.lane.open != nil && s.lane.place == 0 {
		l.wakeLoop()
	}
}

// runLoop publishes due messages until Close or a fault.
func (l *Live) runLoop() {
	defer func() {
		l.mu.Lock()
		close(l.ended)
		l.change.Broadcast()
		l.mu.Unlock()
	}()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		l.mu.Lock()
		timer.Reset(l.lanes.Pump(time.Now()))
		fault := l.fault
		l.mu.Unlock()
		if fault != nil {
			return
		}
		select {
		case a := <-l.lanes.Answers:
			l.mu.Lock()
			l.lanes.answerAll(a)
			l.mu.Unlock()
		case <-l.wake:
		case <-timer.C:
		}
	}
}

// storedNow records that a stream's message is stored. l.mu is held.
func (l *Live) storedNow(s *liveLane, m *Message) {
	l.reached = true
	pieces := m.rows
	if m.End {
		pieces++
	}
	s.stored += uint64(pieces)
	l.held -= pieces
	if l.opt.Stored != nil && m.rows > 0 {
		l.opt.Stored(s.lane.Key, m.rows)
	}
	l.change.Broadcast()
}

// refuseMessage records that a message is not stored, and ends the Live if a retry
// cannot help. l.mu is held.
func (l *Live) refuseMessage(s *Lane, err error) (aside bool) {
	if err := l.refused.judgeRefusal(l.lanes, s, err, l.reached); err != nil {
		l.failWith(err)
	}
	return false
}

// failWith ends all. l.mu is held.
func (l *Live) failWith(err error) {
	if l.fault == nil {
		l.fault = err
	}
	l.change.Broadcast()
	l.wakeLoop()
}

// wakeLoop makes the loop check for due messages.
func (l *Live) wakeLoop() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// wakeWaiters makes waiting callers check their contexts.
func (l *Live) wakeWaiters() {
	l.mu.Lock()
	l.change.Broadcast()
	l.mu.Unlock()
}
