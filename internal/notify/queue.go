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
	mostBackoff = 15 * time.Second // with a sending, less than watch.HeldEvent
	idle        = 5 * time.Second  // between two looks whether the receiver is there, and for a request that the server has lost
	againEvery  = time.Second      // reading the log
)

// Output sends the alarms of a job somewhere.
type Output interface {
	// Begin makes what Run needs on the server. It belongs before the first event that is
	// to be sent.
	Begin(ctx context.Context, nc *nats.Conn) error
	// Run sends until ctx ends (nil), or cannot continue: the job has no alarm log any more.
	Run(ctx context.Context, nc *nats.Conn) error
}

// queue sends the events of a job's alarm log one after the other, each at least once.
type queue struct {
	job, name string        // of the consumer, which remembers how far it is
	first     time.Duration // wait after the first failure, twice as long each time; 0 = a second
	log       *slog.Logger
	// ready finds out whether the receiver is there, while there is nothing to send; nil:
	// that cannot be known.
	ready func(context.Context) error
	send  func(ctx context.Context, e *alarm.Event, data []byte) error
	at    position
}

// errUnwanted is a receiver that refuses one message for good.
var errUnwanted = errors.New("the receiver refuses it")

// begin has the server remember from now on what has to be sent.
func (q *queue) begin(ctx context.Context, nc *nats.Conn) error {
	js, err := jetstream.New(nc)
	if err == nil {
		err = watch.EnsureStreams(ctx, js, q.job, 0)
	}
	if err == nil {
		_, err = q.consumer(ctx, js)
	}
	if err != nil {
		return fmt.Errorf("notify: %s: %w", q.name, err)
	}
	return nil
}

func (q *queue) run(ctx context.Context, nc *nats.Conn) error {
	return again(ctx, nc, q.name, q.log, q.pass)
}

// again reads the log until ctx ends (nil) or there is none.
func again(ctx context.Context, nc *nats.Conn, name string, log *slog.Logger, read func(context.Context, jetstream.JetStream) error) error {
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
		log.Warn(name+": reading the alarm log again", "err", err)
		if store.Pause(ctx, againEvery) != nil {
			return nil
		}
	}
}

func (q *queue) pass(ctx context.Context, js jetstream.JetStream) error {
	cons, err := q.consumer(ctx, js)
	if err != nil {
		return err
	}
	for {
		if q.ready != nil {
			if err := q.persist(ctx, "the receiver is not reached", q.ready, func() error { return nil }); err != nil {
				return err
			}
		}
		if time.Since(q.at.verified) > verifyEvery {
			if cons, err = q.consumer(ctx, js); err != nil {
				return err
			}
		}
		waiting, cancel := context.WithTimeout(ctx, idle)
		m, err := cons.Next(jetstream.FetchContext(waiting))
		cancel()
		none := errors.Is(err, nats.ErrTimeout) || errors.Is(err, jetstream.ErrNoMessages) || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
		if err != nil && !none {
			return err
		}
		if none {
			q.at.verified = time.Time{}
			continue
		}
		if err := q.deliver(ctx, m); err != nil {
			_ = m.Nak() // the next process, or this one, gets it at once
			return err
		}
	}
}

// deliver sends a message until the receiver has it.
func (q *queue) deliver(ctx context.Context, m jetstream.Msg) error {
	e, err := alarm.Unmarshal(m.Data())
	if err != nil {
		q.log.Warn(q.name+": a message of the alarm log is no event, and is left out", "subject", m.Subject(), "err", err)
		q.sent(m)
		return acknowledge(ctx, m)
	}
	err = q.persist(ctx, fmt.Sprintf("event %d was not taken", e.Number), func(ctx context.Context) error {
		err := q.send(ctx, &e, m.Data())
		if errors.Is(err, errUnwanted) {
			q.log.Error(q.name+": an event is left out", "number", e.Number, "rule", e.Rule, "key", e.Key, "err", err)
			return nil
		}
		return err
	}, m.InProgress)
	if err != nil {
		return err
	}
	q.sent(m)
	return acknowledge(ctx, m)
}

// persist tries until it works. Before each wait it says that it is still there.
func (q *queue) persist(ctx context.Context, what string, try func(context.Context) error, still func() error) error {
	for wait, failed := cmp.Or(q.first, time.Second), false; ; wait = min(2*wait, mostBackoff) {
		limited, cancel := context.WithTimeout(ctx, sendTimeout)
		err := try(limited)
		cancel()
		if err == nil {
			if failed {
				q.log.Info(q.name + ": the receiver takes events again")
			}
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		failed = true
		pause := max(wait, askedWait(err))
		q.log.Warn(q.name+": "+what+": trying again", "in", pause, "err", err)
		for ; pause > 0; pause -= mostBackoff {
			if err := errors.Join(still(), store.Pause(ctx, min(pause, mostBackoff))); err != nil {
				return err
			}
		}
	}
}

// acknowledge says that an event is delivered, also where ctx ends now.
func acknowledge(ctx context.Context, m jetstream.Msg) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTimeout)
	defer cancel()
	return m.DoubleAck(ctx)
}
