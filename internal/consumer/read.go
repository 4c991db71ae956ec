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

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

const (
	maxPull       = 16 << 20         // bytes asked for at a time; more gains nothing
	heartbeat     = time.Second      // between the server's heartbeats without messages
	forgetAfter   = 30 * time.Second // the server deletes a consumer without a client after this time
	closeDeadline = 5 * time.Second  // for callbacks that nothing else ends
)

// errEnd is the end of a Span.
var errEnd = errors.New("end of the span")

// readStream passes the messages of a NATS stream whose subjects end in a partition
// number to fn.
func readStream(ctx context.Context, js jetstream.JetStream, job, stream string, span Span, fn func(jetstream.Msg, *jetstream.MsgMetadata, int) error) error {
	last, err := span.lastMessage(ctx, js, stream)
	if errors.Is(err, errEnd) {
		return nil
	}
	if err != nil {
		return explainError(err, job, stream)
	}
	cons, err := js.OrderedConsumer(ctx, stream, span.consumerConfig())
	if err != nil {
		return explainError(err, job, stream)
	}
	if info := cons.CachedInfo(); span.Stored && span.subjects != nil && info != nil && info.NumPending == 0 { // without messages of these partitions nothing would end the reading
		return nil
	}
	if span.Begun != nil {
		span.Begun()
	}
	err = natsclient.Each(ctx, cons, closeDeadline, func(m jetstream.Msg) error {
		return span.acceptMessage(m, stream, last, fn)
	}, jetstream.PullMaxBytes(maxPull), jetstream.PullHeartbeat(heartbeat))
	switch {
	case err == errEnd, err == context.Cause(ctx):
		return nil
	case errors.Is(err, nats.ErrConnectionClosed):
		return fmt.Errorf("consumer: while reading %s: %w", stream, err)
	}
	return err
}

// consumerConfig returns the configuration of a consumer that begins with the span. The
// consumer has no state on the server's disk, and is invisible to other readers.
func (s Span) consumerConfig() jetstream.OrderedConsumerConfig {
	cfg := jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverNewPolicy, InactiveThreshold: forgetAfter, FilterSubjects: s.subjects}
	switch {
	case s.From > 0:
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, s.From
	case !s.Since.IsZero():
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &s.Since
	}
	return cfg
}

// lastMessage returns the number of the span's last message, 0 if this message is still
// to come, errEnd without a message.
func (s Span) lastMessage(ctx context.Context, js jetstream.JetStream, stream string) (uint64, error) {
	if !s.Stored {
		return 0, nil
	}
	str, err := js.Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	state := str.CachedInfo().State
	if state.Msgs == 0 || state.LastSeq < s.From || s.From == 0 && (s.Since.IsZero() || state.LastTime.Before(s.Since)) {
		return 0, errEnd
	}
	return state.LastSeq, nil
}

// acceptMessage passes a message to fn. After the span's last message, acceptMessage
// returns errEnd.
func (s Span) acceptMessage(m jetstream.Msg, stream string, last uint64, fn func(jetstream.Msg, *jetstream.MsgMetadata, int) error) error {
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	seq := meta.Sequence.Stream
	if last > 0 && seq > last { // the last message is gone: newer messages replaced it
		return errEnd
	}
	if m.Headers().Get(wire.HeaderKind) != wire.KindJob {
		part, wrong := strconv.Atoi(m.Subject()[strings.LastIndexByte(m.Subject(), '.')+1:])
		if wrong == nil {
			err = fn(m, meta, part)
		} else {
			err = &wire.ForeignError{Seq: seq, Err: fmt.Errorf("consumer: message %d on %s: the subject ends in no partition, so another program publishes there: look at the message (nats stream get %s %d), stop its sender, then remove the message (nats stream rmm %s %d)", seq, m.Subject(), stream, seq, stream, seq)}
		}
	}
	if m.Headers().Get(wire.HeaderKind) == wire.KindJob && s.Passed != nil {
		s.Passed(seq)
	}
	var other *wire.ForeignError
	if s.Skip != nil && errors.As(err, &other) {
		s.Skip(other)
		err = nil
	}
	if err == nil && last > 0 && (seq == last || meta.NumPending == 0) {
		err = errEnd
	}
	return err
}

func explainError(err error, job, stream string) error {
	if errors.Is(err, jetstream.ErrStreamNotFound) && stream == wire.OutputStream(job) {
		return fmt.Errorf("consumer: %w %q (no NATS stream %s): has the stage run with this job name? (%w)", wire.ErrNoJob, job, stream, err)
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("consumer: there is no NATS stream %s: has the stage run with this job name? (%w)", stream, err)
	}
	return fmt.Errorf("consumer: on %s: %w", stream, err)
}
