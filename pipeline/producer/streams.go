package producer

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// played is one stream's progress.
type played struct {
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
	refused time.Time // since when nobody takes it
}

// stream checks an item and finds or makes its stream.
func (b *broadcast) stream(ctx context.Context, it *Item) (*played, error) {
	if pl := b.known[it.Stream]; pl != nil && pl.item.Stream != "" {
		return pl, nil
	}
	ch := len(b.Channels)
	switch {
	case wire.CheckToken(it.Stream) != nil:
		return nil, fmt.Errorf("producer: stream name: %w", wire.CheckToken(it.Stream))
	case len(it.X)%ch != 0 || len(it.Times) > 0 && len(it.Times) != len(it.X)/ch:
		return nil, fmt.Errorf("producer: stream %q: %d values of %d channels with %d times", it.Stream, len(it.X), ch, len(it.Times))
	case b.Speed > 0 && len(it.Times) == 0 && b.Rate == 0:
		return nil, fmt.Errorf("producer: stream %q has no times: give a rate, or publish as fast as possible", it.Stream)
	}
	pl := b.known[it.Stream]
	if pl == nil {
		pl = &played{key: it.Stream, incarnation: b.incarnation, lastTime: codec.NoTime}
		if b.input != nil {
			if err := b.continueAfter(ctx, pl); err != nil {
				return nil, err
			}
		}
		b.known[it.Stream] = pl
		b.done.Streams++
	}
	return pl, nil
}

// continueAfter reads how far the input already has the stream.
func (b *broadcast) continueAfter(ctx context.Context, pl *played) error {
	last, err := b.input.GetLastMsgForSubject(ctx, fmt.Sprintf("%s.in.*.%s", b.Job, pl.key))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("producer: last message of stream %q: %w", pl.key, err)
	}
	pl.stored, err = strconv.ParseUint(last.Header.Get(wire.HeaderSeq), 10, 64)
	if err != nil {
		return fmt.Errorf("producer: stream %q: its last message has no number to continue from: another producer writes it", pl.key)
	}
	pl.incarnation, pl.storedCRC = last.Header.Get(wire.HeaderIncarnation), last.Header.Get(wire.HeaderCRC)
	return nil
}

// next builds the stream's next message and queues it, or ends its item.
func (b *broadcast) next(pl *played) error {
	ch := len(b.Channels)
	total := len(pl.item.X) / ch
	for !pl.over {
		to := min(total, pl.row+b.RowsPerMessage)
		if err := b.build(pl, to); err != nil {
			return err
		}
		if pl.seq > pl.stored {
			b.turn++
			pl.turn = b.turn
			heap.Push(&b.ready, pl)
			return nil
		}
		if pl.seq == pl.stored && pl.msg.Header.Get(wire.HeaderCRC) != pl.storedCRC {
			return b.differs(pl)
		}
		b.done.Skipped++
	}
	if total > 0 && len(pl.item.Times) > 0 {
		pl.lastTime = pl.item.Times[total-1]
	}
	pl.until = pl.due
	pl.item, pl.msg = Item{}, nil
	b.playing--
	return nil
}

// checkReached finds streams of which more was published before than the
// source holds.
func (b *broadcast) checkReached() error {
	for _, pl := range b.known {
		if pl.seq < pl.stored {
			return b.differs(pl)
		}
	}
	return nil
}

func (b *broadcast) differs(pl *played) error {
	return fmt.Errorf("producer: stream %q, message %d of %d is not what was published before: resume with the same source and the same rows per message (now %d), or start anew", pl.key, pl.seq, pl.stored, b.RowsPerMessage)
}

// build encodes the item's samples up to row to as the stream's next message.
func (b *broadcast) build(pl *played, to int) error {
	ch, it := len(b.Channels), &pl.item
	in := codec.Batch{Rows: to - pl.row, X: it.X[pl.row*ch : to*ch]}
	enc := b.encoders[0]
	var last int64
	timed := len(it.Times) > 0
	if timed {
		in.Times, enc = it.Times[pl.row:to], b.encoders[1]
		last = it.Times[to-1]
	}
	data, err := enc.Encode(&in)
	if err != nil {
		return fmt.Errorf("producer: stream %q: %w", pl.key, err)
	}
	if len(data) > b.maxBytes {
		return fmt.Errorf("producer: %d rows make a message of %d bytes, the server takes %d: publish fewer rows per message", in.Rows, len(data), b.maxBytes)
	}
	pl.seq++
	subject := strings.TrimSuffix(b.Subject, "*") + pl.key
	seq := strconv.FormatUint(pl.seq, 10)
	h := nats.Header{
		wire.HeaderSeq: {seq}, wire.HeaderIncarnation: {pl.incarnation}, wire.HeaderCRC: {fmt.Sprintf("%08x", codec.CRC(data))},
		jetstream.MsgIDHeader: {subject + ":" + pl.incarnation + ":" + seq},
	}
	pl.over = to == len(it.X)/ch
	if it.End && pl.over {
		h.Set(wire.HeaderEnd, "true")
	}
	pl.msg = &nats.Msg{Subject: subject, Header: h, Data: append([]byte(nil), data...)}
	pl.due = b.pace.due(pl.clock, to, last, timed)
	pl.rows, pl.row = in.Rows, to
	return nil
}

// queue is a heap of streams by the time their message is due, in turns.
type queue []*played

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q queue) Less(i, j int) bool {
	if !q[i].due.Equal(q[j].due) {
		return q[i].due.Before(q[j].due)
	}
	return q[i].turn < q[j].turn
}
func (q *queue) Push(x any) { *q = append(*q, x.(*played)) }
func (q *queue) Pop() any {
	old := *q
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return x
}
