package producer

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// stream is the progress of a stream.
type stream struct {
	lane      *Lane
	stored    uint64 // of the last message stored before
	storedCRC string
	lastTime  int64
	until     time.Time // end of its last item

	item Item
	next Piece // of item: the next message
	row  int   // samples of the item in messages, next included
	over bool  // all items have ended
	clock
	due  time.Time
	turn uint64 // order among equals
}

// ErrNoTimes is returned by Publish if Speed is set, but neither the source has times
// nor Rate is set.
var ErrNoTimes = errors.New("it has no times: give a rate, or publish as fast as possible")

// streamOf checks an item and finds or creates the stream.
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
		s = &stream{lane: &Lane{Key: it.Stream, Subject: l.pattern.Subject(it.Stream), Incarnation: l.incarnation}, lastTime: codec.NoTime}
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
	last, err := l.input.GetLastMsgForSubject(ctx, wire.KeySubjects(l.opt.Job, s.lane.Key))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("producer: last message of stream %q: %w", s.lane.Key, err)
	}
	s.stored, err = strconv.ParseUint(last.Header.Get(wire.HeaderSeq), 10, 64)
	if err != nil {
		return fmt.Errorf("producer: stream %q: its last message has no number to continue from: another producer writes it", s.lane.Key)
	}
	s.lane.Incarnation, s.storedCRC = last.Header.Get(wire.HeaderIncarnation), last.Header.Get(wire.HeaderCRC)
	return nil
}

// nextMessage queues the stream's next message, or ends the item.
func (l *loop) nextMessage(s *stream) error {
	total := len(s.item.X) / len(l.opt.Channels)
	for !s.over {
		if err := l.cutStream(s, min(total, s.row+l.opt.RowsPerMessage)); err != nil {
			return err
		}
		if s.lane.Seq >= s.stored {
			l.turn++
			s.turn = l.turn
			heap.Push(&l.ready, s)
			return nil
		}
		if s.lane.Seq++; s.lane.Seq == s.stored && l.checksumOf(&s.next) != s.storedCRC {
			return l.checkSame(s)
		}
		l.done.Skipped++
		s.due = l.pace.skipPause(&s.clock, s.due, time.Now())
	}
	if total > 0 && len(s.item.Times) > 0 {
		s.lastTime = s.item.Times[total-1]
	}
	s.until = s.due
	s.item, s.next = Item{}, Piece{}
	l.playing--
	return nil
}

// cutStream makes the item's samples up to row to the stream's next message.
func (l *loop) cutStream(s *stream, to int) error {
	ch, it, from := len(l.opt.Channels), &s.item, s.row
	if n := l.lanes.MessageBytes(to - from); n > l.lanes.MaxBytes {
		return fmt.Errorf("producer: %d rows make a message of %d bytes, the server takes %d: publish fewer rows per message", to-from, n, l.lanes.MaxBytes)
	}
	s.row, s.over = to, to == len(it.X)/ch
	s.next = Piece{X: it.X[from*ch : to*ch], End: it.End && s.over, Alone: true}
	var last int64
	if len(it.Times) > 0 {
		s.next.Times, last = it.Times[from:to], it.Times[to-1]
	}
	if from == 0 {
		s.next.Trace = it.Trace
	}
	s.due = l.pace.dueTime(s.clock, to, last, len(it.Times) > 0)
	return nil
}

// checksumOf returns the checksum of a piece's message.
func (l *loop) checksumOf(p *Piece) string {
	return fmt.Sprintf("%08x", wire.CRC(l.lanes.encodeOpen(&open{rows: len(p.X) / len(l.opt.Channels), x: p.X, times: p.Times, timed: len(p.Times) > 0})))
}

// publishStream numbers and publishes the stream's next message.
func (l *loop) publishStream(s *stream, now time.Time) {
	m := l.lanes.Open(s.lane, &s.next, now)
	m.Stored = []func(){func() {
		l.done.Messages++
		l.done.Rows += uint64(m.rows)
		l.done.Bytes += uint64(len(m.Payload))
		if now := time.Now(); l.opt.Progress != nil && now.Sub(l.told) >= progressEvery {
			l.told = now
			l.opt.Progress(l.reportPublished())
		}
		l.fault = cmp.Or(l.fault, l.nextMessage(s))
	}}
	l.lanes.Append(s.lane, &s.next)
}

// checkReached finds streams with more messages published earlier than the source has.
func (l *loop) checkReached() error {
	for _, s := range l.known {
		if s.lane.Seq < s.stored {
			return l.checkSame(s)
		}
	}
	return nil
}

func (l *loop) checkSame(s *stream) error {
	return fmt.Errorf("producer: stream %q, message %d of %d is not what was published before: resume with the same source and the same rows per message (now %d), or start from the beginning", s.lane.Key, s.lane.Seq, s.stored, l.opt.RowsPerMessage)
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
