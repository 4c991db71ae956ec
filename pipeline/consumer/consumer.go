package consumer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
	"github.com/eusn-stream/eusn-stream/pipeline/natsclient"
)

const (
	maxPull       = 16 << 20         // bytes asked for at a time; more gains nothing
	heartbeat     = time.Second      // between signs of life of the server while there is nothing
	forgetAfter   = 30 * time.Second // the server's copy of a consumer that went away
	closeDeadline = 5 * time.Second  // for callbacks that nothing else ends
)

// ForeignError is a message among a job's output that is no prediction:
// something else publishes there.
type ForeignError = wire.ForeignError

// Output is one message of predictions.
type Output struct {
	Seq         uint64 // in the job's output NATS stream
	Stored      time.Time
	Partition   int
	InSeq       uint64 // last input message fully answered
	Outs        uint64 // predictions of this partition so far, these included
	Meta        codec.PredictionMeta
	Predictions []codec.Prediction // may be empty
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
// A message that is no prediction is a *ForeignError; who wants to go on behind
// it begins again with the next message.
func Predictions(ctx context.Context, js jetstream.JetStream, job string, from uint64, fn func(Output) error) error {
	return read(ctx, js, wire.OutputStream(job), from, func(m jetstream.Msg, meta *jetstream.MsgMetadata, part int) error {
		o := Output{Seq: meta.Sequence.Stream, Stored: meta.Timestamp, Partition: part}
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
		return fn(o)
	})
}

// DeadLetters hands a job's dead letters to fn, as Predictions does its
// output.
func DeadLetters(ctx context.Context, js jetstream.JetStream, job string, from uint64, fn func(DeadLetter) error) error {
	return read(ctx, js, wire.DeadLetterStream(job), from, func(m jetstream.Msg, meta *jetstream.MsgMetadata, part int) error {
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

// read follows a NATS stream whose subjects end in a partition number.
func read(ctx context.Context, js jetstream.JetStream, stream string, from uint64, fn func(jetstream.Msg, *jetstream.MsgMetadata, int) error) error {
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverNewPolicy, InactiveThreshold: forgetAfter}
	if from > 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, from
	}
	cons, err := js.OrderedConsumer(ctx, stream, cfg)
	if err != nil {
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("consumer: there is no NATS stream %s: has the stage run with this job name?", stream)
		}
		return fmt.Errorf("consumer: on %s: %w", stream, err)
	}
	inner, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	cc, err := cons.Consume(func(m jetstream.Msg) {
		if inner.Err() != nil || m.Headers().Get(wire.HeaderKind) == wire.KindJob {
			return
		}
		meta, err := m.Metadata()
		if err == nil {
			part, wrong := strconv.Atoi(m.Subject()[strings.LastIndexByte(m.Subject(), '.')+1:])
			if wrong == nil {
				err = fn(m, meta, part)
			} else {
				seq := meta.Sequence.Stream
				err = &wire.ForeignError{Seq: seq, Err: fmt.Errorf("consumer: message %d on %s: the subject ends in no partition, so another program publishes there: look at the message (nats stream get %s %d), stop its sender, then remove the message (nats stream rmm %s %d)", seq, m.Subject(), stream, seq, stream, seq)}
			}
		}
		if err != nil {
			stop(err)
		}
	}, jetstream.PullMaxBytes(maxPull), jetstream.PullHeartbeat(heartbeat))
	if err != nil {
		return fmt.Errorf("consumer: on %s: %w", stream, err)
	}
	defer natsclient.StopConsumer(cc, closeDeadline)
	select {
	case <-cc.Closed():
		return fmt.Errorf("consumer: connection closed while reading %s", stream)
	case <-inner.Done():
		if cause := context.Cause(inner); cause != context.Cause(ctx) {
			return cause
		}
		return nil
	}
}
