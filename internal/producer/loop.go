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
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// loop is one Publisher.Publish: an event loop in the caller's goroutine.
type loop struct {
	opt         Publisher
	pattern     wire.Pattern
	src         lookahead
	js          jetstream.JetStream
	input       jetstream.Stream // nil unless Resume
	incarnation string
	encoders    [2]*codec.InputEncoder // without, with times
	pace        pace
	begin       time.Time
	maxBytes    int // of a message

	known   map[string]*stream
	playing int
	ready   queue // playing streams that wait for their time, not for an answer
	turn    uint64
	flight  map[*nats.Msg]*stream
	pending int // bytes in flight
	answers chan answer
	done    Published
	told    time.Time
	refused refusals
}

func newLoop(p Publisher, pattern wire.Pattern, src Source) *loop {
	return &loop{
		opt: p, pattern: pattern, src: lookahead{Source: src}, known: map[string]*stream{}, flight: map[*nats.Msg]*stream{}, begin: time.Now(), incarnation: nuid.Next(),
		answers: make(chan answer, 2*p.Playing), // one for each message under way, and late ones
		pace:    pace{speed: p.Speed, rate: p.Rate},
	}
}

func (l *loop) open(ctx context.Context, nc *nats.Conn) error {
	l.maxBytes = int(nc.MaxPayload()) - headerRoom
	for i := range l.encoders {
		var err error
		if l.encoders[i], err = codec.NewInputEncoder(l.opt.Channels, codec.InputOptions{Times: i == 1}); err != nil {
			return fmt.Errorf("producer: %w", err)
		}
	}
	var err error
	l.js, err = jetstream.New(nc, jetstream.WithPublishAsyncTimeout(answerTimeout),
		jetstream.WithPublishAsyncMaxPending(l.opt.Playing+1),
		// Room for every message that can be in flight, so neither blocks.
		jetstream.WithPublishAsyncAckHandler(func(_ jetstream.JetStream, m *nats.Msg, _ *jetstream.PubAck) { l.answers <- answer{msg: m} }),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) { l.answers <- answer{m, err} }))
	if err != nil {
		return fmt.Errorf("producer: JetStream: %w", err)
	}
	if !l.opt.Resume {
		return nil
	}
	l.input, err = openInput(ctx, l.js, l.opt.Job)
	return err
}

// openInput finds the input of a job, to continue what it has.
func openInput(ctx context.Context, js jetstream.JetStream, job string) (jetstream.Stream, error) {
	input, err := js.Stream(ctx, wire.InputStream(job))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("producer: nothing to resume: there is no NATS stream %s; check the job's name and the server (for a job that reads another job's input, give that job), or publish from the beginning", wire.InputStream(job))
	}
	if err != nil {
		return nil, fmt.Errorf("producer: NATS stream %s: %w", wire.InputStream(job), err)
	}
	return input, nil
}

// hasRoom reports whether the next message may be sent before others are answered.
func (l *loop) hasRoom() bool {
	return l.pending == 0 || l.pending+len(l.ready[0].msg.Data) <= maxPending
}

// sendNext sends the next message, and takes an answer if one is there.
func (l *loop) sendNext(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.send(heap.Pop(&l.ready).(*stream))
	select {
	case a := <-l.answers:
		return l.answered(a)
	default:
		return nil
	}
}

func (l *loop) run(ctx context.Context) error {
	watch := time.NewTicker(answerTimeout)
	defer watch.Stop()
	for {
		if err := l.fill(ctx); err != nil {
			return l.finish(err)
		}
		if l.playing == 0 {
			return l.checkReached()
		}
		var wait <-chan time.Time
		if len(l.ready) > 0 && l.hasRoom() {
			if left := time.Until(l.ready[0].due); left > 0 {
				wait = time.After(left)
			} else if err := l.sendNext(ctx); err != nil {
				return l.finish(err)
			} else {
				continue
			}
		}
		select {
		case a := <-l.answers:
			if err := l.answered(a); err != nil {
				return l.finish(err)
			}
		case <-wait:
		case <-watch.C:
			if err := l.giveUpLate(); err != nil {
				return l.finish(err)
			}
		case <-ctx.Done():
			return l.finish(ctx.Err())
		}
	}
}

// fill starts items until enough streams play. An item whose stream is playing
// waits, and so does all that follows it: the order of the source is kept.
func (l *loop) fill(ctx context.Context) error {
	for l.playing < l.opt.Playing {
		it, err := l.src.peek()
		if it == nil || err != nil {
			return err
		}
		s, err := l.streamOf(ctx, it)
		if err != nil {
			return err
		}
		if s.item.Stream != "" { // playing
			return nil
		}
		s.item, s.row, l.src.item = *it, 0, nil
		s.over = len(s.item.X) == 0 && !s.item.End
		s.clock = l.pace.item(time.Now(), s.until, s.item.Times, s.lastTime)
		l.playing++
		if err := l.nextMessage(s); err != nil {
			return err
		}
	}
	return nil
}

// lookahead is a source whose next item can be seen before it is taken: one
// whose stream is still playing waits here.
type lookahead struct {
	Source
	item  *Item // nil: not read yet, or taken
	ended bool
}

// peek is the next item, nil at the end.
func (a *lookahead) peek() (*Item, error) {
	if a.item != nil || a.ended {
		return a.item, nil
	}
	it, err := a.Next()
	if errors.Is(err, io.EOF) {
		a.ended = true
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("producer: source: %w", err)
	}
	a.item = &it
	return a.item, nil
}

func (l *loop) report() Published {
	p := l.done
	p.Elapsed = time.Since(l.begin)
	return p
}
