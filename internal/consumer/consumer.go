package consumer

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/trace"
)

// ForeignError reports a foreign message in a job's output: another program publishes
// there.
type ForeignError = wire.ForeignError

// Output is a message of predictions.
type Output struct {
	Seq         uint64 // in the job's output NATS stream
	Stored      time.Time
	Partition   int
	Bytes       int    // of the message's body
	InSeq       uint64 // last input message fully answered
	Outs        uint64 // predictions of this partition so far, including these
	Meta        codec.PredictionMeta
	Predictions []codec.Prediction // may be empty
	Trace       trace.Context      // the span that sent the predictions; none: no traced message led to the predictions
}

// Span is a part of a job's output.
type Span struct {
	From   uint64              // first message: 1 = everything kept; 0 = as given by Since
	Since  time.Time           // without From: messages stored at this time or later; zero = only new messages
	Stored bool                // ends with the last message stored at the start; otherwise follows
	Begun  func()              // called when reading begins: no later message is missed; may be nil
	Skip   func(*ForeignError) // called for a foreign message, and reading continues; nil = reading ends
	Passed func(seq uint64)    // called for a message with the job's model identity; may be nil
	Of     []int               // in Read: only these partitions; nil = all

	subjects []string // of these partitions
}

// DeadLetter is an input message the stage could not use.
type DeadLetter struct {
	Seq       uint64 // in the job's dead-letter NATS stream
	Stored    time.Time
	Partition int
	InSeq     uint64 // in the input NATS stream
	Subject   string // as stored there
	Reason    string
	Header    nats.Header
	Data      []byte // the original payload
}

// Predictions passes a job's output to fn, in the order of the output NATS stream, from
// message from on: 1 = everything kept, 0 = only new messages. Predictions returns nil
// when ctx ends, or the first error of fn. A foreign message is a *ForeignError; to
// continue after a foreign message, call Read with Span.Skip.
func Predictions(ctx context.Context, js jetstream.JetStream, job string, from uint64, fn func(Output) error) error {
	return Read(ctx, js, job, Span{From: from}, fn)
}

// Read passes the part of a job's output given by span to fn, in the order of the output
// NATS stream, until its end (Span.Stored), until ctx ends (both nil) or until an error
// of fn, which is returned. On the server, only a consumer in memory is created, which
// the server deletes.
func Read(ctx context.Context, js jetstream.JetStream, job string, span Span, fn func(Output) error) error {
	for _, p := range span.Of {
		span.subjects = append(span.subjects, wire.OutputSubject(job, p))
	}
	return readStream(ctx, js, job, wire.OutputStream(job), span, func(m jetstream.Msg, meta *jetstream.MsgMetadata, part int) error {
		o := Output{Seq: meta.Sequence.Stream, Stored: meta.Timestamp, Partition: part, Bytes: len(m.Data())}
		var err error
		if o.Meta, o.Predictions, err = codec.DecodePredictions(m.Data()); err != nil {
			return wire.Foreign(o.Seq, m.Subject(), err)
		}
		o.InSeq, err = strconv.ParseUint(m.Headers().Get(wire.HeaderInSeq), 10, 64)
		if err == nil {
			o.Outs, err = strconv.ParseUint(m.Headers().Get(wire.HeaderOuts), 10, 64)
		}
		if err != nil {
			return wire.Foreign(o.Seq, m.Subject(), fmt.Errorf("headers %s and %s: %w", wire.HeaderInSeq, wire.HeaderOuts, err))
		}
		o.Trace = trace.Of(m.Headers())
		return fn(o)
	})
}

// Kept returns the first and last message of a job's output, between which some may be
// missing; first is last+1 if the output is empty.
func Kept(ctx context.Context, js jetstream.JetStream, job string) (first, last uint64, err error) {
	s, err := js.Stream(ctx, wire.OutputStream(job))
	if err != nil {
		return 0, 0, explainError(err, job, wire.OutputStream(job))
	}
	state := s.CachedInfo().State
	if state.Msgs == 0 {
		return state.LastSeq + 1, state.LastSeq, nil
	}
	return state.FirstSeq, state.LastSeq, nil
}

// Newest returns the first of a job's newest predictions with about a number of bytes, whether
// this is the first message kept, the last message, and the server's time.
func Newest(ctx context.Context, js jetstream.JetStream, job string, bytes uint64) (from uint64, whole bool, last uint64, now time.Time, err error) {
	s, err := js.Stream(ctx, wire.OutputStream(job))
	if err != nil {
		return 0, false, 0, now, explainError(err, job, wire.OutputStream(job))
	}
	info := s.CachedInfo()
	state := info.State
	if state.Msgs == 0 || state.Bytes <= bytes {
		return max(1, state.FirstSeq), true, state.LastSeq, info.TimeStamp, nil
	}
	messages := max(1, state.Msgs*bytes/state.Bytes)
	return max(state.FirstSeq, state.LastSeq+1-min(messages, state.LastSeq)), false, state.LastSeq, info.TimeStamp, nil
}

// DeadLetters passes a job's dead letters to fn, as Predictions does with its output.
func DeadLetters(ctx context.Context, js jetstream.JetStream, job string, from uint64, fn func(DeadLetter) error) error {
	return readStream(ctx, js, job, wire.DeadLetterStream(job), Span{From: from}, func(m jetstream.Msg, meta *jetstream.MsgMetadata, part int) error {
		h := m.Headers()
		if h.Get(wire.HeaderKind) == wire.KindSentAgain {
			return nil
		}
		in, err := strconv.ParseUint(h.Get(wire.HeaderInSeq), 10, 64)
		if err != nil {
			return fmt.Errorf("consumer: message %d on %s: header %s: %w", meta.Sequence.Stream, m.Subject(), wire.HeaderInSeq, err)
		}
		return fn(DeadLetter{
			Seq: meta.Sequence.Stream, Stored: meta.Timestamp, Partition: part, InSeq: in,
			Subject: h.Get(wire.HeaderInSubject), Reason: h.Get(wire.HeaderError), Header: h, Data: m.Data(),
		})
	})
}

// ServerTime returns the time by the clock of a job's server, which stamps stored
// messages: a relative time such as "ten minutes ago" must use this clock. Without an
// answer of the server, ServerTime returns the local time.
func ServerTime(ctx context.Context, js jetstream.JetStream, job string) time.Time {
	if s, err := js.Stream(ctx, wire.OutputStream(job)); err == nil && !s.CachedInfo().TimeStamp.IsZero() {
		return s.CachedInfo().TimeStamp
	}
	return time.Now()
}
