package producer

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
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

func newBroadcast(p Publisher, src Source) *broadcast {
	return &broadcast{
		Publisher: p, src: src, known: map[string]*played{}, flight: map[*nats.Msg]*played{}, begin: time.Now(), incarnation: nuid.Next(),
		answers: make(chan ackOf, 2*p.Playing), // one for each message under way, and late ones
		pace:    pace{speed: p.Speed, rate: p.Rate},
	}
}

func (b *broadcast) open(ctx context.Context, nc *nats.Conn) error {
	b.maxBytes = int(nc.MaxPayload()) - headerRoom
	for i := range b.encoders {
		var err error
		if b.encoders[i], err = codec.NewInputEncoder(b.Channels, codec.InputOptions{Times: i == 1}); err != nil {
			return fmt.Errorf("producer: %w", err)
		}
	}
	var err error
	b.js, err = jetstream.New(nc, jetstream.WithPublishAsyncTimeout(answerTimeout),
		jetstream.WithPublishAsyncMaxPending(b.Playing+1),
		// Room for every message that can be in flight, so neither blocks.
		jetstream.WithPublishAsyncAckHandler(func(_ jetstream.JetStream, m *nats.Msg, _ *jetstream.PubAck) { b.answers <- ackOf{msg: m} }),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) { b.answers <- ackOf{m, err} }))
	if err != nil {
		return fmt.Errorf("producer: JetStream: %w", err)
	}
	if !b.Resume {
		return nil
	}
	b.input, err = b.js.Stream(ctx, wire.InputStream(b.Job))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("producer: nothing to resume: there is no NATS stream %s; check the job's name and the server, or publish from the beginning", wire.InputStream(b.Job))
	}
	if err != nil {
		return fmt.Errorf("producer: NATS stream %s: %w", wire.InputStream(b.Job), err)
	}
	return nil
}

func (b *broadcast) run(ctx context.Context) error {
	watch := time.NewTicker(answerTimeout)
	defer watch.Stop()
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
			switch room := b.pending == 0 || b.pending+len(next.msg.Data) <= maxPending; {
			case !next.due.After(now) && room:
				if err := ctx.Err(); err != nil {
					return b.leave(err)
				}
				b.send(heap.Pop(&b.ready).(*played))
				select {
				case a := <-b.answers:
					if err := b.answered(a); err != nil {
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
			if err := b.answered(a); err != nil {
				return b.leave(err)
			}
		case <-wait:
		case <-watch.C:
			if err := b.overdue(); err != nil {
				return b.leave(err)
			}
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
				return fmt.Errorf("producer: source: %w", err)
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

func (b *broadcast) report() Published {
	p := b.done
	p.Elapsed = time.Since(b.begin)
	return p
}
