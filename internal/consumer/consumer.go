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

// ForeignError is a message among a job's output that is no prediction:
// something else publishes there.
type ForeignError = wire.ForeignError

// Output is one message of predictions.
type Output struct {
	Seq         uint64 // in the job's output NATS stream
	Stored      time.Time
	Partition   int
	Bytes       int    // of the message's body
	InSeq       uint64 // last input message fully answered
	Outs        uint64 // predictions of this partition so far, these included
	Meta        codec.PredictionMeta
	Predictions []codec.Prediction // may be empty
	Trace       trace.Context      // the span that sent them; none: none of the messages behind them was traced
}

// Span is a part of a job's output.
type Span struct {
	From   uint64              // first message: 1 = everything kept; 0 = what Since says
	Since  time.Time           // without From, what was stored then or later; the zero time = what comes from now on
	Stored bool                // ends with the last message that is stored at the start; otherwise it follows
	Begun  func()              // called when the reader is there: it misses nothing that is stored from then on; may be nil
	Skip   func(*ForeignError) // is told of a message that is no prediction, and reading continues; nil = that ends it
	Passed func(seq uint64)    // is told of a message that says which model the job runs; may be nil
	Of     []int               // in Read: of these partitions alone; nil = of all

	subjects []string // of those
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

// Predictions hands a job's output to fn, in the order of the output NATS
// stream, from message from on: 1 = everything kept, 0 = what comes from now
// on. It runs until ctx ends (nil) or fn returns an error, which it returns.
// A message that is no prediction is a *ForeignError; who wants to continue behind
// it calls Read with Span.Skip.
func Predictions(ctx context.Context, js jetstream.JetStream, job string, from uint64, fn func(Output) error) error {
	return Read(ctx, js, job, Span{From: from}, fn)
}

// Read hands the part of a job's output that span names to fn, in the order of
// the output NATS stream, until its end (Span.Stored), until ctx ends (both nil)
// or until fn returns an error, which it returns. It changes nothing on the
// server but for a consumer in memory, which the server forgets.
func Read(ctx context.Context, js jetstream.JetStream, job string, span Span, fn func(Output) error) error {
	for _, p := range span.Of {
		span.subjects = append(span.subjects, wire.OutputSubject(job, p))
	}
	return read(ctx, js, job, wire.OutputStream(job), span, func(m jetstream.Msg, meta *jetstream.MsgMetadata, part int) error {
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

// Kept is which messages a job's output has: from first to last, of which some may be
// gone; first is last+1 where it has none.
func Kept(ctx context.Context, js jetstream.JetStream, job string) (first, last uint64, err error) {
	s, err := js.Stream(ctx, wire.OutputStream(job))
	if err != nil {
		return 0, 0, explain(err, job, wire.OutputStream(job))
	}
	state := s.CachedInfo().State
	if state.Msgs == 0 {
		return state.LastSeq + 1, state.LastSeq, nil
	}
	return state.FirstSeq, state.LastSeq, nil
}

// DeadLetters hands a job's dead letters to fn, as Predictions does its
// output.
func DeadLetters(ctx context.Context, js jetstream.JetStream, job string, from uint64, fn func(DeadLetter) error) error {
	return read(ctx, js, job, wire.DeadLetterStream(job), Span{From: from}, func(m jetstream.Msg, meta *jetstream.MsgMetadata, part int) error {
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
