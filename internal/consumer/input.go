package consumer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// InputSpan is a part of a job's stored input.
type InputSpan struct {
	Job         string    // with the input
	Key         string    // only messages of this key; empty: of the partition
	Partition   int       // without Key
	Since, Till time.Time // storage times
}

// InputMessage is a message of a producer, as stored.
type InputMessage struct {
	Stored time.Time
	Key    string
	Header nats.Header
	Data   []byte
}

// ReadInput passes the stored messages of a part of the input to fn, in order, until fn returns
// an error, which ReadInput returns. ReadInput never waits for new messages.
func ReadInput(ctx context.Context, js jetstream.JetStream, span InputSpan, fn func(InputMessage) error) error {
	subject := wire.InputSubject(span.Job, span.Partition, ">")
	if span.Key != "" {
		subject = wire.KeySubjects(span.Job, span.Key)
		for token := range strings.SplitSeq(span.Key, ".") {
			if wire.CheckToken(token) != nil {
				return nil // no key
			}
		}
	}
	stream := wire.InputStream(span.Job)
	cons, err := js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &span.Since, InactiveThreshold: forgetAfter, FilterSubjects: []string{subject},
	})
	if err != nil {
		return explainError(err, span.Job, stream)
	}
	if info := cons.CachedInfo(); info != nil && info.NumPending == 0 {
		return nil
	}
	err = natsclient.Each(ctx, cons, closeDeadline, func(m jetstream.Msg) error {
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("consumer: message on %s: %w", m.Subject(), err)
		}
		if meta.Timestamp.After(span.Till) {
			return errEnd
		}
		if err := fn(InputMessage{meta.Timestamp, wire.KeyOf(m.Subject()), m.Headers(), m.Data()}); err != nil {
			return err
		}
		if meta.NumPending == 0 {
			return errEnd
		}
		return nil
	}, jetstream.PullMaxBytes(maxPull), jetstream.PullHeartbeat(heartbeat))
	if errors.Is(err, errEnd) {
		return nil
	}
	return err
}
