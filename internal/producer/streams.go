package producer

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// stream is one stream's progress.
type stream struct {
	key         string
	incarnation string
	seq         uint64 // of the last message published or skipped
	stored      uint64 // of the last message that was there before
	storedCRC   string
	lastTime    int64
	until       time.Time // when its last item was over

	item Item
	row  int  // samples of the item already in messages
	over bool // all of them are
	clock
	due     time.Time
	turn    uint64    // order among equals
	msg     *nats.Msg // built, not acknowledged
	rows    int
	sent    time.Time
	refused time.Time // since when the server refuses the message
}

// ErrNoTimes is what Publish returns where Speed is given, and neither the source has
// times nor Rate says how fast its samples came.
var ErrNoTimes = errors.New("it has no times: give a rate, or publish as fast as possible")

// streamOf checks an item and finds or makes its stream.
func (l *loop) streamOf(ctx context.Context, it *Item) (*stream, error) {
	if s := l.known[it.Stream]; s != nil && s.item.Stream != "" {
		return s, nil
	}
	ch := len(l.opt.Channels)
	switch {
	case l.pattern.CheckKey(it.Stream) != nil:
		return nil, fmt.Errorf("producer: stream name: %w", l.pattern.CheckKey(it.Stream))
	case len(it.X)%ch != 0 || len(it.Times) > 0 && len(it.Times) != len(it.X)/ch:
		return nil, fmt.Errorf("producer: stream %q: %d values of %d channels with %d times", it.Stream, len(it.X), ch, len(it.Times))
	case l.opt.Speed > 0 && len(it.Times) == 0 && l.opt.Rate == 0:
		return nil, fmt.Errorf("producer: stream %q: %w", it.Stream, ErrNoTimes)
	}
	s := l.known[it.Stream]
	if s == nil {
		s = &stream{key: it.Stream, incarnation: l.incarnation, lastTime: codec.NoTime}
		if l.input != nil {
			if err := l.continueAfter(ctx, s); err != nil {
				return nil, err
			}
		}
		l.known[it.Stream] = s
		l.done.Streams++
	}
	return s, nil
}

// continueAfter reads how far the input already has the stream.
func (l *loop) continueAfter(ctx context.Context, s *stream) error {
	last, err := l.input.GetLastMsgForSubject(ctx, wire.KeySubjects(l.opt.Job, s.key))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("producer: last message of stream %q: %w", s.key, err)
	}
	s.stored, err = strconv.ParseUint(last.Header.Get(wire.HeaderSeq), 10, 64)
	if err != nil {
		return fmt.Errorf("producer: stream %q: its last message has no number to continue from: another producer writes it", s.key)
	}
	s.incarnation, s.storedCRC = last.Header.Get(wire.HeaderIncarnation), last.Header.Get(wire.HeaderCRC)
	return nil
}

// nextMessage builds the stream's next message and queues it, or ends its item.
func (l *loop) nextMessage(s *stream) error {
	ch := len(l.opt.Channels)
	total := len(s.item.X) / ch
	for !s.over {
		to := min(total, s.row+l.opt.RowsPerMessage)
		if err := l.build(s, to); err != nil {
			return err
		}
		if s.seq > s.stored {
			l.turn++
			s.turn = l.turn
			heap.Push(&l.ready, s)
			return nil
		}
		if s.seq == s.stored && s.msg.Header.Get(wire.HeaderCRC) != s.storedCRC {
			return l.differs(s)
		}
		l.done.Skipped++
		s.due = l.pace.skip(&s.clock, s.due, time.Now())
	}
	if total > 0 && len(s.item.Times) > 0 {
		s.lastTime = s.item.Times[total-1]
	}
	s.until = s.due
	s.item, s.msg = Item{}, nil
	l.playing--
	return nil
}

// checkReached finds streams of which more was published before than the source
// has.
func (l *loop) checkReached() error {
	for _, s := range l.known {
		if s.seq < s.stored {
			return l.differs(s)
		}
	}
	return nil
}

func (l *loop) differs(s *stream) error {
	return fmt.Errorf("producer: stream %q, message %d of %d is not what was published before: resume with the same source and the same rows per message (now %d), or start from the beginning", s.key, s.seq, s.stored, l.opt.RowsPerMessage)
}

// build encodes the item's samples up to row to as the stream's next message.
func (l *loop) build(s *stream, to int) error {
	ch, it := len(l.opt.Channels), &s.item
	in := codec.Batch{Rows: to - s.row, X: it.X[s.row*ch : to*ch]}
	enc := l.encoders[0]
	var last int64
	timed := len(it.Times) > 0
	if timed {
		in.Times, enc = it.Times[s.row:to], l.encoders[1]
		last = it.Times[to-1]
	}
	data, err := enc.Encode(&in)
	if err != nil {
		return fmt.Errorf("producer: stream %q: %w", s.key, err)
	}
	if len(data) > l.maxBytes {
		return fmt.Errorf("producer: %d rows make a message of %d bytes, the server takes %d: publish fewer rows per message", in.Rows, len(data), l.maxBytes)
	}
	s.seq++
	s.over = to == len(it.X)/ch
	s.msg = message(l.pattern.Subject(s.key), s.incarnation, s.incarnation, s.seq, data, it.End && s.over)
	if s.row == 0 {
		it.Trace.Put(s.msg.Header)
	}
	s.due = l.pace.due(s.clock, to, last, timed)
	s.rows, s.row = in.Rows, to
	return nil
}

// queue is a heap of streams by the time their message is due, in turns.
type queue []*stream

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q queue) Less(i, j int) bool {
	if !q[i].due.Equal(q[j].due) {
		return q[i].due.Before(q[j].due)
	}
	return q[i].turn < q[j].turn
}
func (q *queue) Push(x any) { *q = append(*q, x.(*stream)) }
func (q *queue) Pop() any {
	old := *q
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return x
}
