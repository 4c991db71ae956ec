package admin

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Letter is a dead letter without the payload.
type Letter struct {
	Seq       uint64    `json:"seq"` // in the job's dead-letter NATS stream
	Stored    time.Time `json:"stored"`
	Partition int       `json:"partition"`
	InSeq     uint64    `json:"in_seq"` // in the input NATS stream
	Subject   string    `json:"subject"`
	Key       string    `json:"key"`
	Bytes     int       `json:"bytes"` // size of the stored payload
	Why       string    `json:"why"`   // Reason.String
	Reason    string    `json:"reason"`
	// Of is the earlier dead letter of a failed resending; 0 = none.
	Of uint64 `json:"of,omitempty"`
	// Time of the last resending, and the new input message.
	SentAgain *time.Time `json:"sent_again,omitempty"`
	SentAs    uint64     `json:"sent_as,omitempty"`
}

// LetterFilter chooses dead letters; a zero field chooses all.
type LetterFilter struct {
	Reason       string    // a Reason's word, or part of the sentence
	Key          string    // the whole key
	Since, Until time.Time // storage time: from Since on, before Until
	Unsent       bool      // only letters that were not resent
}

func (f LetterFilter) acceptsLetter(d *Letter) bool {
	reason := strings.Contains(d.Reason, f.Reason)
	if slices.Contains(wire.ReasonNames[:], f.Reason) {
		reason = d.Why == f.Reason
	}
	return reason &&
		(f.Key == "" || d.Key == f.Key) &&
		!d.Stored.Before(f.Since) && (f.Until.IsZero() || d.Stored.Before(f.Until)) &&
		!(f.Unsent && d.SentAgain != nil)
}

const (
	letterWait  = 10 * time.Second // how long the server may take for the next dead letter
	forgetAfter = 30 * time.Second // the server deletes a consumer without a client after this time
)

// DeadLetters passes the current letters that the filter accepts to fn, in order.
// Payloads are not read.
func (j *Job) DeadLetters(ctx context.Context, f LetterFilter, fn func(Letter) error) error {
	type mark struct {
		at time.Time
		as uint64
	}
	marks := map[uint64]mark{} // first: they follow the letters that they mark
	err := j.scanLetters(ctx, func(_ uint64, at time.Time, _ string, h nats.Header) error {
		if h.Get(wire.HeaderKind) == wire.KindSentAgain {
			seq, err1 := strconv.ParseUint(h.Get(wire.HeaderDead), 10, 64)
			as, err2 := strconv.ParseUint(h.Get(wire.HeaderInSeq), 10, 64)
			if err1 == nil && err2 == nil {
				marks[seq] = mark{at, as}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return j.scanLetters(ctx, func(seq uint64, at time.Time, subject string, h nats.Header) error {
		if h.Get(wire.HeaderKind) == wire.KindSentAgain {
			return nil
		}
		d := Letter{Seq: seq, Stored: at, Subject: h.Get(wire.HeaderInSubject), Why: h.Get(wire.HeaderReason), Reason: h.Get(wire.HeaderError)}
		d.Key = wire.KeyOf(d.Subject)
		d.Bytes, _ = strconv.Atoi(h.Get("Nats-Msg-Size"))
		d.Of, _ = strconv.ParseUint(h.Get(wire.HeaderDead), 10, 64)
		var err error
		if d.Partition, err = strconv.Atoi(subject[strings.LastIndexByte(subject, '.')+1:]); err == nil {
			d.InSeq, err = strconv.ParseUint(h.Get(wire.HeaderInSeq), 10, 64)
		}
		if err != nil {
			return fmt.Errorf("admin: message %d on %s is no dead letter of a stage: %w", seq, subject, err)
		}
		if m, ok := marks[seq]; ok {
			d.SentAgain, d.SentAs = &m.at, m.as
		}
		if !f.acceptsLetter(&d) {
			return nil
		}
		return fn(d)
	})
}

// scanLetters reads the headers of the current dead letters.
func (j *Job) scanLetters(ctx context.Context, fn func(seq uint64, at time.Time, subject string, h nats.Header) error) error {
	name := wire.DeadLetterStream(j.job.Name)
	s, err := j.job.JS.Stream(ctx, name)
	if err != nil {
		return fmt.Errorf("admin: NATS stream %s: %w", name, err)
	}
	state := s.CachedInfo().State
	if state.Msgs == 0 {
		return nil
	}
	cons, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{HeadersOnly: true, InactiveThreshold: forgetAfter})
	if err != nil {
		return fmt.Errorf("admin: consumer on %s: %w", name, err)
	}
	var failed error
	err = natsclient.EachStored(ctx, cons, letterWait, func(m jetstream.Msg, meta *jetstream.MsgMetadata) (bool, error) {
		failed = fn(meta.Sequence.Stream, meta.Timestamp, m.Subject(), m.Headers())
		return failed == nil && meta.Sequence.Stream < state.LastSeq, nil // the last number may be a deleted message's
	})
	if err != nil {
		return fmt.Errorf("admin: reading %s: %w", name, err)
	}
	return failed
}

// Replay republishes a dead letter's original bytes to the input, for example after the
// model or the policy on missing values has changed, and marks it as resent. The position
// in the stream is new: so the number, which would count as a repeat, the incarnation and
// the checksum are dropped. The end mark stays, and the gateway's mark: a payload
// unreadable for the gateway becomes a new dead letter, and never samples. Within the
// server's duplicate window a second replay is dropped. Replay returns the new input
// message. An input read by several jobs is refused (ErrShared): each further job has
// used the message, or has its own dead letter.
func (j *Job) Replay(ctx context.Context, d consumer.DeadLetter) (inSeq uint64, err error) {
	key := wire.KeyOf(d.Subject)
	if j.job.Pattern.Filter() == "" || j.job.Pattern.CheckKey(key) != nil {
		return 0, fmt.Errorf("admin: dead letter %d came on %q: no subject to send it to", d.Seq, d.Subject)
	}
	if err := j.checkUnshared(ctx); err != nil {
		return 0, err
	}
	number := strconv.FormatUint(d.Seq, 10)
	m := &nats.Msg{Subject: j.job.Pattern.Subject(key), Data: d.Data, Header: nats.Header{
		jetstream.MsgIDHeader: {j.job.Name + ".dlq." + number}, wire.HeaderDead: {number},
	}}
	if state.EndsAfter(d.Header) {
		m.Header.Set(wire.HeaderEnd, "true")
	}
	if why := d.Header.Get(wire.HeaderUnreadable); why != "" { // no number of attempts makes it samples
		m.Header.Set(wire.HeaderUnreadable, why)
	}
	ack, err := j.job.JS.PublishMsg(ctx, m)
	if err == nil && ack.Duplicate {
		var ours bool
		if ours, err = j.holdsMessage(ctx, ack.Sequence, key, m); err == nil && !ours { // a producer that guesses the id could keep the letter out of the input
			m.Header.Set(jetstream.MsgIDHeader, rand.Text())
			ack, err = j.job.JS.PublishMsg(ctx, m)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("admin: dead letter %d to %s: %w", d.Seq, m.Subject, err)
	}
	as := strconv.FormatUint(ack.Sequence, 10)
	mark := &nats.Msg{Subject: wire.DeadLetterSubject(j.job.Name, d.Partition), Header: nats.Header{
		wire.HeaderKind: {wire.KindSentAgain}, wire.HeaderDead: {number}, wire.HeaderInSeq: {as}, wire.HeaderInSubject: {d.Subject},
		wire.HeaderError:      {"sent again: dead letter " + number},
		jetstream.MsgIDHeader: {j.job.Name + ".dlq." + number + ".as." + as},
	}}
	if _, err := j.job.JS.PublishMsg(ctx, mark); err != nil {
		return ack.Sequence, fmt.Errorf("admin: dead letter %d was sent again, as input message %s, but could not be marked so: %w", d.Seq, as, err)
	}
	return ack.Sequence, nil
}

// ErrShared reports an input of several jobs.
var ErrShared = errors.New("several jobs read this input")

// checkUnshared requires that only this job reads the input.
func (j *Job) checkUnshared(ctx context.Context) error {
	if j.isAlone {
		return nil
	}
	others := []string{j.InputJob()}
	if j.job.Source.Job == "" {
		var err error
		if others, err = j.Readers(ctx); err != nil || len(others) == 0 {
			j.isAlone = err == nil
			return err
		}
	}
	return fmt.Errorf("admin: a message that is sent again would reach all of them, job %s too: %w: publish it under another key, from its source, or predict it with backfill", strings.Join(others, ", "), ErrShared)
}

// holdsMessage reports whether an input message is m, which was sent to a key. A
// removed message cannot be compared, and counts as equal.
func (j *Job) holdsMessage(ctx context.Context, seq uint64, key string, m *nats.Msg) (bool, error) {
	there, err := j.job.In.GetMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	same := func(header string) bool { return there.Header.Get(header) == m.Header.Get(header) }
	return wire.KeyOf(there.Subject) == key && bytes.Equal(there.Data, m.Data) && same(wire.HeaderDead) && same(wire.HeaderEnd) && same(wire.HeaderUnreadable), nil
}

// DeadLetter reads a dead letter by number. The payload is complete: a truncated payload
// is read from the input, if the input still has it.
func (j *Job) DeadLetter(ctx context.Context, seq uint64) (consumer.DeadLetter, error) {
	s, err := j.job.JS.Stream(ctx, wire.DeadLetterStream(j.job.Name))
	if err != nil {
		return consumer.DeadLetter{}, fmt.Errorf("admin: NATS stream %s: %w", wire.DeadLetterStream(j.job.Name), err)
	}
	m, err := s.GetMsg(ctx, seq)
	if err != nil {
		return consumer.DeadLetter{}, fmt.Errorf("admin: dead letter %d of job %q: %w", seq, j.job.Name, err)
	}
	if m.Header.Get(wire.HeaderKind) == wire.KindSentAgain {
		return consumer.DeadLetter{}, fmt.Errorf("admin: message %d of %s records that dead letter %s was sent again: specify that number", seq, wire.DeadLetterStream(j.job.Name), m.Header.Get(wire.HeaderDead))
	}
	d := consumer.DeadLetter{Seq: seq, Stored: m.Time, Subject: m.Header.Get(wire.HeaderInSubject), Reason: m.Header.Get(wire.HeaderError), Header: m.Header, Data: m.Data}
	if d.InSeq, err = strconv.ParseUint(m.Header.Get(wire.HeaderInSeq), 10, 64); err != nil {
		return d, fmt.Errorf("admin: dead letter %d: header %s: %w", seq, wire.HeaderInSeq, err)
	}
	if d.Partition, err = strconv.Atoi(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]); err != nil {
		return d, fmt.Errorf("admin: dead letter %d is on %s, which is no partition's: %w", seq, m.Subject, err)
	}
	if m.Header.Get(wire.HeaderTruncated) != "" {
		if d.InSeq == 0 {
			return d, fmt.Errorf("admin: dead letter %d was cut short, and its original came with an imported state: send it again from its source", seq)
		}
		whole, err := j.job.In.GetMsg(ctx, d.InSeq)
		if err != nil {
			return d, fmt.Errorf("admin: dead letter %d was cut short, and message %d of the input, its original: %w", seq, d.InSeq, err)
		}
		d.Data = whole.Data
	}
	return d, nil
}
