package watch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// HeldEvent is the time an alarm output may hold an event without a confirmation. Then the event
// goes to the next process.
const HeldEvent = 30 * time.Second

// OutputConsumer returns the required configuration of an alarm output's consumer. The consumer
// stores the output's position in the alarm log.
func OutputConsumer(job, output string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable: output, FilterSubject: wire.AlarmEvents(job), DeliverPolicy: jetstream.DeliverNewPolicy,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: HeldEvent, MaxAckPending: 1, MaxDeliver: -1,
	}
}

// FindOutput finds the consumer of an output. cons is nil for a push consumer.
func FindOutput(ctx context.Context, js jetstream.JetStream, job, output string) (cons jetstream.Consumer, info *jetstream.ConsumerInfo, err error) {
	cons, err = js.Consumer(ctx, wire.AlarmStream(job), output)
	if errors.Is(err, jetstream.ErrNotPullConsumer) {
		var pushed jetstream.PushConsumer
		if pushed, err = js.PushConsumer(ctx, wire.AlarmStream(job), output); err == nil {
			return nil, pushed.CachedInfo(), nil
		}
	}
	if err != nil {
		return nil, nil, err
	}
	return cons, cons.CachedInfo(), nil
}

// OutputDiffers names the difference between a consumer and the required configuration; empty =
// none.
func OutputDiffers(job, output string, is jetstream.ConsumerConfig) string {
	want := OutputConsumer(job, output)
	filters := is.FilterSubjects
	if is.FilterSubject != "" {
		filters = append(filters, is.FilterSubject)
	}
	switch {
	case !slices.Equal(filters, []string{want.FilterSubject}):
		return "its filter"
	case is.AckPolicy != want.AckPolicy, is.AckWait != want.AckWait, is.MaxAckPending != want.MaxAckPending, is.MaxDeliver != want.MaxDeliver, is.DeliverSubject != "", len(is.BackOff) > 0, is.InactiveThreshold != 0, is.HeadersOnly:
		return "how it delivers"
	case is.DeliverPolicy != want.DeliverPolicy && is.DeliverPolicy != jetstream.DeliverByStartSequencePolicy:
		return "where it begins"
	}
	return ""
}
