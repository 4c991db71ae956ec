package notify

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/watch"
)

// verifyEvery is the interval between checks of a consumer's configuration while events arrive;
// without events the interval is idleWait.
const verifyEvery = 30 * time.Second

// position is the output's position, as this process knows it.
type position struct {
	created  time.Time // the consumer's creation time; zero = unknown
	next     uint64    // log message after the last sent message; 0 = unknown
	verified time.Time

	delivered uint64 // the consumer's number of the last delivery
}

// recreateConsumer replaces a consumer whose configuration was changed; what names the change.
func (q *queue) recreateConsumer(ctx context.Context, js jetstream.JetStream, info *jetstream.ConsumerInfo, what string) (jetstream.Consumer, error) {
	stream := wire.AlarmStream(q.job)
	if q.position.next == 0 {
		q.position.next = info.AckFloor.Stream + 1
	}
	q.log.Error(q.name+": the consumer that stores the position was changed: recreating the consumer; sending continues after the last sent event, one event may be sent twice", "stream", stream, "what", what, "message", q.position.next)
	if err := js.DeleteConsumer(ctx, stream, q.name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil, err
	}
	return q.createConsumer(ctx, js)
}

// ensureConsumer returns the consumer that stores the output's position, and creates a missing
// consumer. A consumer that was paused, changed, deleted or replaced is repaired so that no event
// is lost, and the log reports the repair.
func (q *queue) ensureConsumer(ctx context.Context, js jetstream.JetStream) (jetstream.Consumer, error) {
	stream := wire.AlarmStream(q.job)
	cons, info, err := watch.FindOutput(ctx, js, q.job, q.name)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound) && q.position.next == 0:
		return q.createConsumer(ctx, js)
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		q.log.Error(q.name+": the consumer that stores the position was deleted: recreating the consumer; sending continues after the last sent event", "stream", stream, "message", q.position.next)
		return q.createConsumer(ctx, js)
	case err != nil:
		return nil, err
	}
	what := watch.OutputDiffers(q.job, q.name, info.Config)
	if what == "" && !q.position.created.IsZero() && !info.Created.Equal(q.position.created) {
		what = "its creation time"
	}
	if what != "" {
		return q.recreateConsumer(ctx, js, info, what)
	}
	if info.Paused || info.Config.PauseUntil != nil && info.Config.PauseUntil.After(time.Now()) {
		q.log.Error(q.name+": the consumer that stores the position was paused: resuming the consumer", "stream", stream)
		if _, err := js.ResumeConsumer(ctx, stream, q.name); err != nil {
			return nil, err
		}
	}
	q.position.created, q.position.verified = info.Created, time.Now()
	if q.position.next == 0 {
		q.position.next = info.AckFloor.Stream + 1
	}
	return cons, nil
}

// createConsumer creates the consumer, after the last sent message if it is known.
func (q *queue) createConsumer(ctx context.Context, js jetstream.JetStream) (jetstream.Consumer, error) {
	c := watch.OutputConsumer(q.job, q.name)
	if q.position.next > 0 {
		c.DeliverPolicy, c.OptStartSeq = jetstream.DeliverByStartSequencePolicy, q.position.next
	}
	cons, err := js.CreateConsumer(ctx, wire.AlarmStream(q.job), c)
	if err != nil {
		return nil, err
	}
	info := cons.CachedInfo()
	q.position = position{created: info.Created, next: max(q.position.next, info.AckFloor.Stream+1), verified: time.Now()}
	return cons, nil
}

// isRestarted reports whether the consumer has delivered a message as its first, or under a
// number that is not new: another consumer may have replaced the known one since the last check.
func (q *queue) isRestarted(m jetstream.Msg) bool {
	meta, err := m.Metadata()
	if err != nil {
		return false
	}
	last := q.position.delivered
	q.position.delivered = meta.Sequence.Consumer
	return meta.Sequence.Consumer <= max(last, 1)
}

// recordSent records that a message of the log was sent or permanently skipped.
func (q *queue) recordSent(m jetstream.Msg) {
	if meta, err := m.Metadata(); err == nil {
		q.position.next = max(q.position.next, meta.Sequence.Stream+1)
	}
}
