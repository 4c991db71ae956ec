package producer

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// loop is one Publisher.Publish: an event loop in the caller's goroutine.
type loop struct {
	opt         Publisher
	pattern     wire.Pattern
	src         lookahead
	lanes       *Lanes
	input       jetstream.Stream // nil unless Resume
	incarnation string
	pace        pace
	begin       time.Time

	known   map[string]*stream
	playing int
	ready   queue // playing streams that wait for their time, not for an answer
	turn    uint64
	done    Published
	told    time.Time
	refused refusals
	fault   error // why nothing more is published
}

func newLoop(p Publisher, pattern wire.Pattern, src Source) *loop {
	return &loop{
		opt: p, pattern: pattern, src: lookahead{Source: src}, known: map[string]*stream{}, begin: time.Now(), incarnation: nuid.Next(),
		pace: pace{speed: p.Speed, rate: p.Rate}, refused: refusals{log: p.Log},
	}
}

func (l *loop) openStreams(ctx context.Context, nc *nats.Conn) (err error) {
	l.lanes, err = NewLanes(nc, LanesOptions{Job: l.opt.Job, Channels: l.opt.Channels, Rows: l.opt.RowsPerMessage, Refused: l.refuseMessage})
	if err != nil {
		return fmt.Errorf("producer: %w", err)
	}
	if l.opt.Resume {
		l.input, err = openInput(ctx, l.lanes.js, l.opt.Job)
	}
	return err
}

// openInput opens the input of a job, to continue its streams.
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

func (l *loop) runLoop(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if err := cmp.Or(l.fault, l.fillStreams(ctx)); err != nil {
			return l.finishRun(err)
		}
		if l.playing == 0 {
			return l.checkReached()
		}
		now := time.Now()
		for len(l.ready) > 0 && !l.ready[0].due.After(now) {
			l.publishStream(heap.Pop(&l.ready).(*stream), now)
		}
		wait := l.lanes.Pump(now)
		if len(l.ready) > 0 {
			wait = min(wait, l.ready[0].due.Sub(now))
		}
		timer.Reset(wait)
		select {
		case a := <-l.lanes.Answers:
			l.lanes.answerAll(a)
		case <-timer.C:
		case <-ctx.Done():
			return l.finishRun(ctx.Err())
		}
	}
}

// refuseMessage counts a message that is not stored, and ends the loop if a retry
// cannot help.
func (l *loop) refuseMessage(s *Lane, err error) (aside bool) {
	l.done.Retries++
	l.fault = cmp.Or(l.fault, l.refused.judgeRefusal(l.lanes, s, err, false))
	return false
}

// finishRun waits for the messages in flight, so that the report is right, and returns
// cause.
func (l *loop) finishRun(cause error) error {
	if errors.Is(cause, nats.ErrPermissionViolation) { // a refused message has no answer
		return cause
	}
	late := time.After(answerTimeout)
	for len(l.lanes.flight) > 0 {
		select {
		case a := <-l.lanes.Answers:
			l.lanes.Answered(a)
		case <-late:
			return cause
		}
	}
	return cause
}

// fillStreams starts items until enough streams play. An item of a playing stream waits,
// and all later items also wait: the order of the source is kept.
func (l *loop) fillStreams(ctx context.Context) error {
	for l.playing < l.opt.Playing {
		it, err := l.src.peekItem()
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
		s.clock = l.pace.timeItem(time.Now(), s.until, s.item.Times, s.lastTime)
		l.playing++
		if err := l.nextMessage(s); err != nil {
			return err
		}
	}
	return nil
}

// lookahead is a source with a visible next item: the next item of a still playing stream
// waits here.
type lookahead struct {
	Source
	item  *Item // nil: not read yet, or taken
	ended bool
}

// peekItem is the next item, nil at the end.
func (a *lookahead) peekItem() (*Item, error) {
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

func (l *loop) reportPublished() Published {
	p := l.done
	p.Elapsed = time.Since(l.begin)
	return p
}
