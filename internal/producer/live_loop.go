package producer

import (
	"container/heap"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/trace"
)

// liveAnswer is what became of a message.
type liveAnswer struct {
	msg  *nats.Msg
	seq  uint64 // of the message in the input, where it was stored
	err  error
	last *lastInput // the key's last message, where the server refused ours for it
}

// loop sends what is due until Close or a fault.
func (l *Live) loop() {
	defer func() {
		l.mu.Lock()
		close(l.ended)
		l.change.Broadcast()
		l.mu.Unlock()
	}()
	watch := time.NewTicker(answerTimeout)
	defer watch.Stop()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next, more := l.sendDue(time.Now())
		if !more {
			return
		}
		if next > 0 {
			timer.Reset(next)
		}
		select {
		case a := <-l.answers:
			l.answered(a)
		case <-l.wake:
		case <-timer.C:
		case <-watch.C:
			l.giveUpLate()
		}
	}
}

// sendDue sends the messages that are due. It returns for how long nothing else
// is, 0 where only an answer makes something due; more is false at the end.
func (l *Live) sendDue(now time.Time) (next time.Duration, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.fault == nil && len(l.due) > 0 {
		s := l.due[0]
		if s.due.After(now) {
			return s.due.Sub(now), true
		}
		if len(l.flight.streams) >= maxFlight || l.flight.bytes >= maxPending {
			return 0, true
		}
		heap.Pop(&l.due)
		if s.msg == nil && s.waiting() == 0 { // a late answer has settled it
			continue
		}
		if s.msg == nil {
			if err := l.build(s); err != nil {
				l.fail(err)
				break
			}
		}
		l.send(s, now)
	}
	return 0, l.fault == nil
}

// build makes a stream's next message of what waits. l.mu is held.
func (l *Live) build(s *lane) error {
	ch := len(l.opt.Channels)
	n, end := s.next(l.opt.Rows)
	in := codec.Batch{Rows: n, X: s.x[:n*ch], Times: s.times[:n]}
	enc := l.form.encoders[0]
	if slices.ContainsFunc(in.Times, func(t int64) bool { return t != codec.NoTime }) {
		enc = l.form.encoders[1]
	}
	data, err := enc.Encode(&in)
	if err != nil {
		return fmt.Errorf("producer: stream %q: %w", s.key, err)
	}
	if n > 0 {
		s.until = s.times[n-1]
	}
	s.seq++
	s.msg = message(l.form.pattern.Subject(s.key), l.run, s.incarnation, s.seq, data, end)
	s.trace.Put(s.msg.Header)
	s.trace = trace.Context{}
	if l.opt.Resume {
		s.expect(l.opt.Job)
	}
	s.rows, s.pieces = n, n
	if end {
		s.pieces++
	}
	s.drop(n, end, ch)
	s.since = time.Now() // of what is left, nearly: it has waited for this message already
	return nil
}

// send puts a stream's message in flight. l.mu is held.
func (l *Live) send(s *lane, now time.Time) {
	l.flight.streams[s.msg] = s
	l.flight.bytes += len(s.msg.Data)
	s.sent = now
	if _, err := l.js.PublishMsgAsync(s.msg, jetstream.WithRetryAttempts(0)); err != nil {
		l.answers <- liveAnswer{msg: s.msg, err: err} // disconnected, or too large
	}
}

// answered takes a message out of flight. Its stream continues, or the message is
// sent again.
func (l *Live) answered(a liveAnswer) {
	s := l.flight.streams[a.msg]
	if s == nil {
		return // an answer to an attempt that was given up
	}
	if a.err != nil && a.last == nil && otherLast(a.err) && l.input != nil {
		go l.lookAgain(a, s.key) // it answers for the message
		return
	}
	delete(l.flight.streams, a.msg)
	l.flight.bytes -= len(a.msg.Data)
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.last != nil {
		a.seq, a.err = s.compare(a.last, l.opt.Log)
	}
	switch {
	case errors.Is(a.err, errSendAgain):
		s.expect(l.opt.Job)
		l.put(s, time.Time{})
	case a.err != nil:
		l.retry(s, a.err)
	default:
		l.storedNow(s, a.seq)
	}
}

// storedNow notes that a stream's message is stored. l.mu is held.
func (l *Live) storedNow(s *lane, seq uint64) {
	l.reached = true
	rows := s.rows
	s.last, s.moved, s.msg, s.refused = seq, false, nil, time.Time{}
	s.stored += uint64(s.pieces)
	l.held -= s.pieces
	if l.opt.Stored != nil && rows > 0 {
		l.opt.Stored(s.key, rows)
	}
	l.change.Broadcast()
	l.schedule(s)
}

// retry sends a message again that has no acknowledgement, or ends all where
// that cannot help. l.mu is held.
func (l *Live) retry(s *lane, err error) {
	now := time.Now()
	if s.refused.IsZero() {
		s.refused = now
	}
	l.refused.log(l.opt.Log, s.key, s.seq, err)
	nobody := errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders)
	switch {
	case nobody && !l.reached && now.Sub(s.refused) > noStreamPatience:
		l.fail(fmt.Errorf("producer: message %d of stream %q: %w (does a stage listen on %s?)", s.seq, s.key, err, l.opt.Subject))
	case permanent(err):
		l.fail(fmt.Errorf("producer: message %d of stream %q: %w", s.seq, s.key, err))
	default:
		l.put(s, now.Add(retryWait))
	}
}

// fail ends all. l.mu is held.
func (l *Live) fail(err error) {
	if l.fault == nil {
		l.fault = err
	}
	l.change.Broadcast()
	l.nudge()
}

// giveUpLate sends again what the client has given no answer for, though it
// should after answerTimeout.
func (l *Live) giveUpLate() {
	for msg, s := range l.flight.streams {
		if time.Since(s.sent) > 2*answerTimeout {
			l.answered(liveAnswer{msg: msg, err: nats.ErrTimeout})
		}
	}
}
