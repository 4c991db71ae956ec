package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/watch"
)

const (
	sendTimeout = 10 * time.Second
	maxBackoff  = 15 * time.Second // with one attempt, less than watch.HeldEvent
	idleWait    = 5 * time.Second  // between two checks of the receiver; bounds the wait for a request that the server lost
	rereadWait  = time.Second      // between attempts to read the log
)

// Output sends the alarms of a job to a receiver.
type Output interface {
	// Prepare creates what Run needs on the server. Call it before the first event to be sent.
	Prepare(ctx context.Context, nc *nats.Conn) error
	// Run sends alarms until ctx ends (nil) or the job's alarm log no longer exists.
	Run(ctx context.Context, nc *nats.Conn) error
}

// queue sends the events of a job's alarm log in order, each at least once.
type queue struct {
	job, name string        // of the consumer, which stores the position
	first     time.Duration // wait after the first failure, doubled each time; 0 = 1 s
	log       *slog.Logger
	// checkReceiver finds out whether the receiver is reachable while no events are due; nil: not
	// possible.
	checkReceiver func(context.Context) error
	sendEvent     func(ctx context.Context, e *alarm.Event, data []byte) error
	position      position
}

// errRefused means that a receiver permanently refuses a message.
var errRefused = errors.New("the receiver refuses the event")

// prepare creates the consumer, which stores the position from now on.
func (q *queue) prepare(ctx context.Context, nc *nats.Conn) error {
	js, err := jetstream.New(nc)
	if err == nil {
		err = watch.EnsureStreams(ctx, js, q.job, 0)
	}
	if err == nil {
		_, err = q.ensureConsumer(ctx, js)
	}
	if err != nil {
		return fmt.Errorf("notify: %s: %w", q.name, err)
	}
	return nil
}

func (q *queue) runUntilDone(ctx context.Context, nc *nats.Conn) error {
	return retryReading(ctx, nc, q.name, q.log, q.sendEvents)
}

// retryReading calls read until ctx ends (nil) or no log exists.
func retryReading(ctx context.Context, nc *nats.Conn, name string, log *slog.Logger, read func(context.Context, jetstream.JetStream) error) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	for {
		err := read(ctx, js)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, watch.ErrNoAlarms) || errors.Is(err, nats.ErrConnectionClosed) {
			return fmt.Errorf("notify: %s: %w", name, err)
		}
		log.Warn(name+": retrying to read the alarm log", "err", err)
		if store.Pause(ctx, rereadWait) != nil {
			return nil
		}
	}
}

func (q *queue) sendEvents(ctx context.Context, js jetstream.JetStream) error {
	cons, err := q.ensureConsumer(ctx, js)
	if err != nil {
		return err
	}
	for {
		if q.checkReceiver != nil {
			if err := q.retryUntilSent(ctx, "the receiver is unreachable", q.checkReceiver, func() error { return nil }); err != nil {
				return err
			}
		}
		if time.Since(q.position.verified) > verifyEvery {
			if cons, err = q.ensureConsumer(ctx, js); err != nil {
				return err
			}
		}
		waiting, cancel := context.WithTimeout(ctx, idleWait)
		m, err := cons.Next(jetstream.FetchContext(waiting))
		cancel()
		none := errors.Is(err, nats.ErrTimeout) || errors.Is(err, jetstream.ErrNoMessages) || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
		if err != nil && !none {
			return err
		}
		if none {
			q.position.verified = time.Time{}
			continue
		}
		if q.isRestarted(m) { // verify the consumer first; it delivers m again
			_ = m.Nak()
			q.position.verified = time.Time{}
			continue
		}
		if err := q.deliverEvent(ctx, m); err != nil {
			_ = m.Nak() // a process gets the event immediately
			return err
		}
	}
}

// deliverEvent sends a message until the receiver accepts the message.
func (q *queue) deliverEvent(ctx context.Context, m jetstream.Msg) error {
	e, err := alarm.Unmarshal(m.Data())
	if err != nil {
		q.log.Warn(q.name+": a message of the alarm log is no event and is skipped", "subject", m.Subject(), "err", err)
		q.recordSent(m)
		return acknowledgeEvent(ctx, m)
	}
	err = q.retryUntilSent(ctx, fmt.Sprintf("event %d was not accepted", e.Number), func(ctx context.Context) error {
		err := q.sendEvent(ctx, &e, m.Data())
		if errors.Is(err, errRefused) {
			q.log.Error(q.name+": event skipped", "number", e.Number, "rule", e.Rule, "key", e.Key, "err", err)
			return nil
		}
		return err
	}, m.InProgress)
	if err != nil {
		return err
	}
	q.recordSent(m)
	return acknowledgeEvent(ctx, m)
}

// retryUntilSent calls try until it succeeds. It calls still before each wait, so that the server
// does not redeliver the event.
func (q *queue) retryUntilSent(ctx context.Context, what string, try func(context.Context) error, still func() error) error {
	for wait, failed := cmp.Or(q.first, time.Second), false; ; wait = min(2*wait, maxBackoff) {
		limited, cancel := context.WithTimeout(ctx, sendTimeout)
		err := try(limited)
		cancel()
		if err == nil {
			if failed {
				q.log.Info(q.name + ": the receiver accepts events again")
			}
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		failed = true
		pause := max(wait, requestedWait(err))
		q.log.Warn(q.name+": "+what+": retrying", "in", pause, "err", err)
		for ; pause > 0; pause -= maxBackoff {
			if err := errors.Join(still(), store.Pause(ctx, min(pause, maxBackoff))); err != nil {
				return err
			}
		}
	}
}

// acknowledgeEvent acknowledges an event to the server, even if ctx ends.
func acknowledgeEvent(ctx context.Context, m jetstream.Msg) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTimeout)
	defer cancel()
	return m.DoubleAck(ctx)
}
