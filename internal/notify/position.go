package notify

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/watch"
)

// verifyEvery is how often a consumer is compared with what it must be, while events come;
// while none come, it is every idle.
const verifyEvery = 30 * time.Second

// position is how far this process knows that its output is.
type position struct {
	made     time.Time // the consumer; zero = not known
	next     uint64    // message of the log behind the last one that was sent; 0 = not known
	verified time.Time
}

// remake makes the consumer again, of which somebody has changed what.
func (q *queue) remake(ctx context.Context, js jetstream.JetStream, info *jetstream.ConsumerInfo, what string) (jetstream.Consumer, error) {
	stream := wire.AlarmStream(q.job)
	if q.at.next == 0 {
		q.at.next = info.AckFloor.Stream + 1
	}
	q.log.Error(q.name+": the consumer that remembers what was sent was changed: it is made again, and events continue behind the last one that was sent; one may be sent twice", "stream", stream, "what", what, "message", q.at.next)
	if err := js.DeleteConsumer(ctx, stream, q.name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil, err
	}
	return q.create(ctx, js)
}

// consumer is the consumer that remembers how far the output is. It is made where it is not
// there. One that somebody has paused, changed, deleted or replaced is repaired, so that no
// event is left out, and the log reports it.
func (q *queue) consumer(ctx context.Context, js jetstream.JetStream) (jetstream.Consumer, error) {
	stream := wire.AlarmStream(q.job)
	cons, info, err := watch.FindOutput(ctx, js, q.job, q.name)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound) && q.at.next == 0:
		return q.create(ctx, js)
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		q.log.Error(q.name+": the consumer that remembers what was sent was deleted: it is made again, and events continue behind the last one that was sent", "stream", stream, "message", q.at.next)
		return q.create(ctx, js)
	case err != nil:
		return nil, err
	}
	what := watch.OutputDiffers(q.job, q.name, info.Config)
	if what == "" && !q.at.made.IsZero() && !info.Created.Equal(q.at.made) {
		what = "when it was made"
	}
	if what != "" {
		return q.remake(ctx, js, info, what)
	}
	if info.Paused || info.Config.PauseUntil != nil && info.Config.PauseUntil.After(time.Now()) {
		q.log.Error(q.name+": the consumer that remembers what was sent was paused: it is resumed", "stream", stream)
		if _, err := js.ResumeConsumer(ctx, stream, q.name); err != nil {
			return nil, err
		}
	}
	q.at.made, q.at.verified = info.Created, time.Now()
	if q.at.next == 0 {
		q.at.next = info.AckFloor.Stream + 1
	}
	return cons, nil
}

// create makes the consumer: behind what was sent, where that is known.
func (q *queue) create(ctx context.Context, js jetstream.JetStream) (jetstream.Consumer, error) {
	c := watch.OutputConsumer(q.job, q.name)
	if q.at.next > 0 {
		c.DeliverPolicy, c.OptStartSeq = jetstream.DeliverByStartSequencePolicy, q.at.next
	}
	cons, err := js.CreateConsumer(ctx, wire.AlarmStream(q.job), c)
	if err != nil {
		return nil, err
	}
	info := cons.CachedInfo()
	q.at = position{made: info.Created, next: max(q.at.next, info.AckFloor.Stream+1), verified: time.Now()}
	return cons, nil
}

// sent notes that a message of the log was sent, or left out for good.
func (q *queue) sent(m jetstream.Msg) {
	if meta, err := m.Metadata(); err == nil {
		q.at.next = max(q.at.next, meta.Sequence.Stream+1)
	}
}
