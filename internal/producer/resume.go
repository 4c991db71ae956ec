package producer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// A resumed stream is written by compare-and-set: each message names the input number
// of the previous message, and the server refuses it if another message is the key's
// last. So a late message of a killed client cannot come in between, and a stored
// message with a lost acknowledgement is not stored twice, after any delay.

// lastInput is a key's last message in the input.
type lastInput struct {
	seq         uint64 // in the input; 0 = none
	number      uint64 // Eusn-Seq
	incarnation string
	time        int64 // of the stream's last sample
	end         bool
	resent      bool // a resent dead letter between two messages of the producer
	foreign     error
}

var errSendAgain = errors.New("the input has another last message of the stream")

// laneOf finds or makes a stream.
func (l *Live) laneOf(ctx context.Context, key string) (*liveLane, error) {
	if err := l.pattern.CheckKey(key); err != nil {
		return nil, fmt.Errorf("producer: stream name: %w", err)
	}
	l.mu.Lock()
	s := l.streams[key]
	l.mu.Unlock()
	if s != nil {
		return s, nil
	}
	l.claiming.Lock()
	defer l.claiming.Unlock()
	l.mu.Lock()
	s = l.streams[key] // another call may have created it
	l.mu.Unlock()
	if s != nil {
		return s, nil
	}
	s = &liveLane{lane: &Lane{Key: key, Subject: l.pattern.Subject(key), Incarnation: l.run}, there: reached{time: codec.NoTime}, seen: codec.NoTime, until: codec.NoTime}
	s.lane.live = s
	if l.opt.Resume {
		last, err := l.lanes.lastOf(ctx, key)
		if err == nil {
			err = s.resumeFrom(last)
		}
		if err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	l.streams[key] = s
	l.mu.Unlock()
	return s, nil
}

// resumeFrom makes a stream continue after the last message.
func (s *liveLane) resumeFrom(last lastInput) error {
	s.last = last.seq
	switch {
	case last.seq == 0:
		return nil
	case last.resent:
		return fmt.Errorf("producer: stream %q: its last message in the input, %d, is a dead letter that was sent again, so it does not say which samples were stored before: publish without Resume once, or under another key", s.lane.Key, last.seq)
	case last.foreign != nil:
		return fmt.Errorf("producer: stream %q: its last message in the input, %d, is not of a client that resumes (%w): publish without Resume, or under another key", s.lane.Key, last.seq, last.foreign)
	}
	s.lane.Seq, s.lane.Incarnation, s.there, s.until = last.number, last.incarnation, reached{last.time, last.end}, last.time
	return nil
}

// lastOf reads a key's last message.
func (l *Lanes) lastOf(ctx context.Context, key string) (lastInput, error) {
	m, err := l.input.GetLastMsgForSubject(ctx, wire.KeySubjects(l.opt.Job, key))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return lastInput{}, nil
	}
	if err != nil {
		return lastInput{}, fmt.Errorf("producer: last message of stream %q: %w", key, err)
	}
	h := m.Header
	last := lastInput{seq: m.Sequence, incarnation: h.Get(wire.HeaderIncarnation), end: h.Get(wire.HeaderEnd) == endMark, resent: h.Get(wire.HeaderDead) != ""}
	if last.number, last.foreign = strconv.ParseUint(h.Get(wire.HeaderSeq), 10, 64); last.foreign == nil {
		last.time, last.foreign = strconv.ParseInt(h.Get(wire.HeaderLastTime), 10, 64)
	}
	return last, nil
}

// setExpectation adds the headers for resuming. The server looks for the key's last
// message in the message's partition. After the job's number of partitions changed, the
// last message may be in another: the server then has to search all partitions.
func (s *liveLane) setExpectation(h nats.Header, m *Message, job string) {
	h.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(s.last, 10))
	if s.moved {
		h.Set(jetstream.ExpectedLastSubjSeqSubjHeader, wire.KeySubjects(job, s.lane.Key))
	}
	h.Set(wire.HeaderLastTime, strconv.FormatInt(m.until, 10))
}

// otherLast reports whether the server has refused a message because the key's last
// message is not the expected one.
func otherLast(err error) bool {
	const wrongLast, wrongLastConstant = 10071, 10164
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == wrongLast || api.ErrorCode == wrongLastConstant)
}

// lookAgain answers for a message that the server refused because of the key's last
// message.
func (l *Lanes) lookAgain(a Answer, key string) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	last, err := l.lastOf(ctx, key)
	if err != nil {
		time.Sleep(retryWait)
		l.Answers <- Answer{msg: a.msg, err: nats.ErrTimeout} // causes another request
		return
	}
	l.Answers <- Answer{msg: a.msg, err: a.err, last: &last}
}

// compareLast interprets an unexpected last message of a key: this client's message, with
// its input number as the result; the predecessor of this client's message
// (errSendAgain); or another producer's message.
func (s *liveLane) compareLast(last *lastInput, log *slog.Logger) (uint64, error) {
	m := s.lane.queue[0]
	switch {
	case last.seq == 0, last.resent: // removed by the input's limits; or an operator's message
	case last.foreign != nil, last.incarnation != m.Incarnation, last.number > m.Seq:
		return 0, fmt.Errorf("producer: stream %q: %w (message %d of the input): only one client may publish under a key; stop the other one", s.lane.Key, errOtherProducer, last.seq)
	case last.number == m.Seq:
		return last.seq, nil
	case last.number < m.Seq-1:
		log.Error("the input has lost messages that it had acknowledged: was a backup restored, or the power lost? Predictions will carry the flag gap", "stream", s.lane.Key, "seq", m.Seq, "last", last.number)
	}
	s.moved = last.seq == s.last && last.seq > 0 // refused nevertheless
	s.last = last.seq
	return 0, errSendAgain
}

// errOtherProducer is permanent.
var errOtherProducer = errors.New("another producer publishes under this key")
