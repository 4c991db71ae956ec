package pipeline

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
)

// broadcast is one Publisher.Publish: an event loop in the caller's goroutine.
type broadcast struct {
	Publisher
	src         Source
	js          jetstream.JetStream
	input       jetstream.Stream // nil unless Resume
	incarnation string
	encoders    [2]*codec.InputEncoder // without, with times
	pace        pace
	begin       time.Time
	maxBytes    int // of a message

	known   map[string]*played
	held    *Item // read from src while its stream was still playing
	ended   bool  // src has
	playing int
	ready   queue // playing streams that wait for their time, not for an answer
	turn    uint64
	flight  map[*nats.Msg]*played
	pending int // bytes in flight
	answers chan ackOf
	done    Published
	told    time.Time
	refusal time.Time // last line on messages not taken
	unsaid  int       // since that line
}

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
	refused time.Time // since when nobody takes it
}

type ackOf struct {
	msg *nats.Msg
	err error
}

func (b *broadcast) open(ctx context.Context, nc *nats.Conn) error {
	b.flight = map[*nats.Msg]*played{}
	b.maxBytes = int(nc.MaxPayload()) - headerRoom
	for i := range b.encoders {
		var err error
		if b.encoders[i], err = codec.NewInputEncoder(b.Channels, codec.InputOptions{Times: i == 1}); err != nil {
			return fmt.Errorf("pipeline: publisher: %w", err)
		}
	}
	var err error
	b.js, err = jetstream.New(nc, jetstream.WithPublishAsyncTimeout(commitTimeout),
		jetstream.WithPublishAsyncMaxPending(b.Playing+1),
		// Room for every message that can be in flight, so neither blocks.
		jetstream.WithPublishAsyncAckHandler(func(_ jetstream.JetStream, m *nats.Msg, _ *jetstream.PubAck) { b.answers <- ackOf{msg: m} }),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) { b.answers <- ackOf{m, err} }))
	if err != nil {
		return fmt.Errorf("pipeline: publisher: JetStream: %w", err)
	}
	if !b.Resume {
		return nil
	}
	b.input, err = b.js.Stream(ctx, inputStream(b.Job))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("pipeline: publisher: nothing to resume: there is no NATS stream %s; check the job's name and the server, or publish from the beginning", inputStream(b.Job))
	}
	if err != nil {
		return fmt.Errorf("pipeline: publisher: NATS stream %s: %w", inputStream(b.Job), err)
	}
	return nil
}

func (b *broadcast) run(ctx context.Context) error {
	for {
		if err := b.fill(ctx); err != nil {
			return b.leave(err)
		}
		if b.playing == 0 {
			return b.checkReached()
		}
		now := time.Now()
		var wait <-chan time.Time
		if len(b.ready) > 0 {
			next := b.ready[0]
			switch room := b.pending == 0 || b.pending+len(next.msg.Data) <= b.MaxPending; {
			case !next.due.After(now) && room:
				if err := ctx.Err(); err != nil {
					return b.leave(err)
				}
				b.send(heap.Pop(&b.ready).(*played))
				select {
				case a := <-b.answers:
					if err := b.answered(ctx, a); err != nil {
						return b.leave(err)
					}
				default:
				}
				continue
			case room:
				wait = time.After(next.due.Sub(now))
			}
		}
		select {
		case a := <-b.answers:
			if err := b.answered(ctx, a); err != nil {
				return b.leave(err)
			}
		case <-wait:
		case <-ctx.Done():
			return b.leave(ctx.Err())
		}
	}
}

// fill starts items until enough streams play. An item of a stream that is
// playing waits, and what comes after it too: order matters more than width.
func (b *broadcast) fill(ctx context.Context) error {
	for b.playing < b.Playing {
		if b.held == nil {
			if b.ended {
				return nil
			}
			it, err := b.src.Next()
			if errors.Is(err, io.EOF) {
				b.ended = true
				return nil
			}
			if err != nil {
				return fmt.Errorf("pipeline: publisher: source: %w", err)
			}
			b.held = &it
		}
		pl, err := b.stream(ctx, b.held)
		if err != nil {
			return err
		}
		if pl.item.Stream != "" { // playing
			return nil
		}
		pl.item, pl.row, b.held = *b.held, 0, nil
		pl.over = len(pl.item.X) == 0 && !pl.item.End
		pl.clock = b.pace.item(time.Now(), pl.until, pl.item.Times, pl.lastTime)
		b.playing++
		if err := b.next(pl); err != nil {
			return err
		}
	}
	return nil
}

// stream checks an item and finds or makes its stream.
func (b *broadcast) stream(ctx context.Context, it *Item) (*played, error) {
	if pl := b.known[it.Stream]; pl != nil && pl.item.Stream != "" {
		return pl, nil
	}
	ch := len(b.Channels)
	switch {
	case checkToken(it.Stream) != nil:
		return nil, fmt.Errorf("pipeline: publisher: stream name: %w", checkToken(it.Stream))
	case len(it.X)%ch != 0 || len(it.Times) > 0 && len(it.Times) != len(it.X)/ch:
		return nil, fmt.Errorf("pipeline: publisher: stream %q: %d values of %d channels with %d times", it.Stream, len(it.X), ch, len(it.Times))
	case b.Speed > 0 && len(it.Times) == 0 && b.Rate == 0:
		return nil, fmt.Errorf("pipeline: publisher: stream %q has no times: give a rate, or publish as fast as possible", it.Stream)
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
		return fmt.Errorf("pipeline: publisher: last message of stream %q: %w", pl.key, err)
	}
	pl.stored, err = strconv.ParseUint(last.Header.Get(HeaderSeq), 10, 64)
	if err != nil {
		return fmt.Errorf("pipeline: publisher: stream %q: its last message has no number to continue from: another producer writes it", pl.key)
	}
	pl.incarnation, pl.storedCRC = last.Header.Get(HeaderIncarnation), last.Header.Get(HeaderCRC)
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
		if pl.seq == pl.stored && pl.msg.Header.Get(HeaderCRC) != pl.storedCRC {
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
	return fmt.Errorf("pipeline: publisher: stream %q, message %d of %d is not what was published before: resume with the same source and the same rows per message (now %d), or start anew", pl.key, pl.seq, pl.stored, b.RowsPerMessage)
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
		return fmt.Errorf("pipeline: publisher: stream %q: %w", pl.key, err)
	}
	if len(data) > b.maxBytes {
		return fmt.Errorf("pipeline: publisher: %d rows make a message of %d bytes, the server takes %d: publish fewer rows per message", in.Rows, len(data), b.maxBytes)
	}
	pl.seq++
	subject := strings.TrimSuffix(b.Subject, "*") + pl.key
	seq := strconv.FormatUint(pl.seq, 10)
	h := nats.Header{
		HeaderSeq: {seq}, HeaderIncarnation: {pl.incarnation}, HeaderCRC: {fmt.Sprintf("%08x", codec.CRC(data))},
		jetstream.MsgIDHeader: {subject + ":" + pl.incarnation + ":" + seq},
	}
	pl.over = to == len(it.X)/ch
	if it.End && pl.over {
		h.Set(HeaderEnd, "true")
	}
	pl.msg = &nats.Msg{Subject: subject, Header: h, Data: append([]byte(nil), data...)}
	pl.due = b.pace.due(pl.clock, to, last, timed)
	pl.rows, pl.row = in.Rows, to
	return nil
}

func (b *broadcast) send(pl *played) {
	b.flight[pl.msg] = pl
	b.pending += len(pl.msg.Data)
	if _, err := b.js.PublishMsgAsync(pl.msg, jetstream.WithRetryAttempts(0)); err != nil {
		b.answers <- ackOf{pl.msg, err} // disconnected, or too large
	}
}

// answered takes a message out of flight: its stream goes on, or it goes out
// again.
func (b *broadcast) answered(ctx context.Context, a ackOf) error {
	pl := b.flight[a.msg]
	if pl == nil {
		return nil // a late answer to an attempt that was given up
	}
	delete(b.flight, a.msg)
	b.pending -= len(a.msg.Data)
	if a.err != nil {
		return b.retry(pl, a.err)
	}
	pl.refused = time.Time{}
	b.done.Messages++
	b.done.Rows += uint64(pl.rows)
	b.done.Bytes += uint64(len(a.msg.Data))
	if now := time.Now(); b.Progress != nil && now.Sub(b.told) >= progressEvery {
		b.told = now
		b.Progress(b.report())
	}
	return b.next(pl)
}

func (b *broadcast) retry(pl *played, err error) error {
	now := time.Now()
	if pl.refused.IsZero() {
		pl.refused = now
	}
	b.complain(pl, err)
	nobody := errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders)
	if permanent(err) || nobody && now.Sub(pl.refused) > noStreamPatience {
		return fmt.Errorf("pipeline: publisher: message %d of stream %q: %w (does a stage listen on %s?)", pl.seq, pl.key, err, b.Subject)
	}
	b.done.Retries++
	pl.due = now.Add(retryWait)
	b.turn++
	pl.turn = b.turn
	heap.Push(&b.ready, pl)
	return nil
}

// complain logs at most a line per second, however many streams wait.
func (b *broadcast) complain(pl *played, err error) {
	b.unsaid++
	if now := time.Now(); now.Sub(b.refusal) >= time.Second {
		b.Log.Warn("messages not taken, sending them again", "refusals", b.unsaid, "stream", pl.key, "seq", pl.seq, "err", err)
		b.refusal, b.unsaid = now, 0
	}
}

// leave waits for the messages under way, so that the report is right, and
// returns why it ends.
func (b *broadcast) leave(cause error) error {
	late := time.After(commitTimeout)
	for len(b.flight) > 0 {
		select {
		case a := <-b.answers:
			if pl := b.flight[a.msg]; pl != nil {
				delete(b.flight, a.msg)
				if a.err == nil {
					b.done.Messages++
					b.done.Rows += uint64(pl.rows)
					b.done.Bytes += uint64(len(a.msg.Data))
				}
			}
		case <-late:
			return cause
		}
	}
	return cause
}

func (b *broadcast) report() Published {
	p := b.done
	p.Elapsed = time.Since(b.begin)
	return p
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
