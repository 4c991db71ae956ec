package producer

import (
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

const (
	maxFlight  = 512                    // messages without an answer: more only wait in the server (pipeline's documentation)
	probeEvery = 250 * time.Millisecond // while the server takes nothing
	asideEvery = 10 * time.Second       // pause before a message set aside is retried
)

// Answer is the result of publishing a message.
type Answer struct {
	msg  *nats.Msg
	seq  uint64 // of the message in the input, if stored
	err  error
	last *lastInput // the key's last message, if the server refused the message because of it
}

// Load adds a message of an earlier run from the Store. Enqueue publishes it.
func (l *Lanes) Load(s *Lane, m *Message) {
	m.lane, m.written = s, true
	s.queue = append(s.queue, m)
}

// SkipStored removes the messages of a stream up to the last message that the input has.
// A stream has one message in flight, so the input has all earlier messages. A second
// copy would be the stream's last message in the input, with which the next run
// compares.
func (l *Lanes) SkipStored(s *Lane, isStored func(incarnation string, seq uint64) bool) {
	stored := 0
	for i, m := range s.queue {
		if isStored(m.Incarnation, m.Seq) {
			stored = i + 1
		}
	}
	for _, m := range s.queue[:stored] {
		l.opt.Store.Done(m)
	}
	s.queue = s.queue[stored:]
}

// Enqueue lets a stream publish the next message.
func (l *Lanes) Enqueue(s *Lane) {
	if !s.busy && len(s.queue) > 0 && s.queue[0].written {
		s.busy = true
		l.ready = append(l.ready, s)
	}
}

// Waits reports whether messages of the stream have no answer.
func (s *Lane) Waits() bool { return len(s.queue) > 0 }

// Pump numbers the due messages, and publishes as many as allowed. It returns the time
// until the next message is due; math.MaxInt64 = none.
func (l *Lanes) Pump(now time.Time) time.Duration {
	wait := l.sealDue(now)
	if !now.Before(l.late) {
		l.late = now.Add(answerTimeout)
		l.giveUpLate(now)
	}
	for len(l.aside) > 0 && !now.Before(l.aside[0].again) {
		l.ready = append(l.ready, l.aside[0])
		l.aside = l.aside[1:]
	}
	if len(l.aside) > 0 {
		wait = min(wait, l.aside[0].again.Sub(now))
	}
	l.publishReady(now)
	if len(l.flight) > 0 {
		wait = min(wait, l.late.Sub(now))
	}
	if l.held && len(l.ready) > 0 && len(l.flight) == 0 {
		wait = min(wait, max(l.probe.Sub(now), time.Millisecond))
	}
	return wait
}

// publishReady publishes ready messages while there is room in flight. If the server
// accepts nothing, one message is in flight at a time.
func (l *Lanes) publishReady(now time.Time) {
	for len(l.ready) > 0 && len(l.flight) < maxFlight && l.flying < maxPending {
		if l.held && (len(l.flight) > 0 || l.probe.After(now)) {
			return
		}
		s := l.ready[0]
		l.ready[0] = nil
		l.ready = l.ready[1:]
		l.publishLane(s)
	}
}

// publishLane sends the next message of a stream.
func (l *Lanes) publishLane(s *Lane) {
	m := s.queue[0]
	data := m.Payload
	if l.opt.Store != nil {
		var err error
		if data, err = l.opt.Store.Payload(m); err != nil {
			l.setAside(s)
			return
		}
	}
	run := l.opt.Run
	if run == "" {
		run = m.Incarnation
	}
	msg := newMessage(m.Subject, run, m.Incarnation, m.Seq, data, m.End)
	if m.Unreadable != "" {
		msg.Header[wire.HeaderUnreadable] = []string{m.Unreadable}
	}
	if m.span != nil {
		m.span.Context.Put(msg.Header)
	} else {
		m.trace.Put(msg.Header)
	}
	if l.input != nil {
		s.live.setExpectation(msg.Header, m, l.opt.Job)
	}
	l.flight[msg] = s
	l.flying += len(data)
	s.sent = time.Now()
	if _, err := l.js.PublishMsgAsync(msg, jetstream.WithRetryAttempts(0)); err != nil {
		l.Answered(Answer{msg: msg, err: err}) // disconnected, or too large
	}
}

// Answered removes a message from flight. The stream continues, or the message is
// republished.
func (l *Lanes) Answered(a Answer) {
	s := l.flight[a.msg]
	if s == nil {
		return // an answer to an attempt that was given up
	}
	if l.input != nil && a.last == nil && otherLast(a.err) {
		go l.lookAgain(a, s.Key) // it sends the answer
		return
	}
	delete(l.flight, a.msg)
	l.flying -= len(a.msg.Data)
	if a.last != nil {
		a.seq, a.err = s.live.compareLast(a.last, l.opt.Log)
	}
	switch {
	case errors.Is(a.err, errSendAgain):
		l.ready = append(l.ready, s)
	case a.err != nil:
		l.refuseMessage(s, a.err)
	default:
		l.noteStored(s, a.seq)
	}
}

// answerAll handles an answer and all further available answers.
func (l *Lanes) answerAll(a Answer) {
	for range maxFlight {
		l.Answered(a)
		select {
		case a = <-l.Answers:
		default:
			return
		}
	}
	l.Answered(a)
}

// noteStored records that the server has stored the first message of a stream's queue.
func (l *Lanes) noteStored(s *Lane, seq uint64) {
	m := s.queue[0]
	s.queue[0] = nil
	s.queue = s.queue[1:]
	s.busy, s.refused = false, time.Time{}
	if s.live != nil {
		s.live.last, s.live.moved = seq, false
	}
	if l.opt.Store != nil {
		l.opt.Store.Done(m)
	}
	for _, stored := range m.Stored {
		stored()
	}
	m.Stored = nil
	if m.span != nil {
		m.span.End = time.Now()
		l.opt.Tracer.Record(m.span)
		m.span = nil
	}
	if l.held {
		if l.held = false; l.opt.Taken != nil {
			l.opt.Taken(time.Since(l.since))
		}
	}
	if s.late && len(s.queue) == 0 {
		l.sealOpen(s)
	}
	l.Enqueue(s)
}

// refuseMessage keeps a refused message for another attempt.
func (l *Lanes) refuseMessage(s *Lane, err error) {
	now := time.Now()
	if s.refused.IsZero() {
		s.refused = now
	}
	if l.opt.Refused(s, err) {
		l.setAside(s)
		return
	}
	l.ready = append(l.ready, s) // other streams come first
	if l.probe = now.Add(probeEvery); !l.held {
		l.held, l.since = true, now
	}
}

func (l *Lanes) setAside(s *Lane) {
	s.again = time.Now().Add(asideEvery)
	l.aside = append(l.aside, s)
}

// giveUpLate republishes messages without an answer from the client after answerTimeout.
// The server stores a message once, by the message's id, and the stage uses a message
// once, by the number.
func (l *Lanes) giveUpLate(now time.Time) {
	for msg, s := range l.flight {
		if now.Sub(s.sent) > 2*answerTimeout {
			l.Answered(Answer{msg: msg, err: nats.ErrTimeout})
		}
	}
}
