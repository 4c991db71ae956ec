package watch

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// tail are the events from a message of the log on. It is read in one go: where the state is old, there
// are many, and each question for a single message would take its time. While the server
// is away, it waits.
func (b *book) tail(ctx context.Context, from uint64) (events []alarm.Logged, err error) {
	next := from
	take := func(m jetstream.Msg, seq uint64) {
		if next = seq + 1; seq > b.last || m.Subject() == wire.AlarmRecordSubject(b.job) || m.Subject() == wire.AlarmStateSubject(b.job) {
			return
		}
		e, err := parseLogged(m.Data(), m.Headers())
		if err != nil {
			b.skip(seq, m.Subject(), err)
			return
		}
		events = append(events, e)
	}
	for next <= b.last { // the last one is there: it is what this process wrote, or what another one has written since
		if err := b.messages(ctx, next, false, func(m jetstream.Msg, meta *jetstream.MsgMetadata) bool {
			take(m, meta.Sequence.Stream)
			return next <= b.last
		}); err != nil {
			if ctx.Err() != nil || errors.Is(err, nats.ErrConnectionClosed) {
				return nil, err
			}
			if err := b.still(ctx); err != nil { // what it waits for may be lost
				return nil, err
			}
			if err := store.Pause(ctx, store.RetryWait); err != nil {
				return nil, err
			}
		}
	}
	return events, nil
}

// errNone is the error where there is no further message, errEnough where no more are wanted.
var errNone, errEnough = errors.New("no message is there"), errors.New("no more are wanted")

// overdue is how long a message may take that is there.
const overdue = 10 * time.Second

// messages hands over those from a number on, as long as fn says so: those that are there,
// or also those that come, while the connection lasts.
func (b *book) messages(ctx context.Context, from uint64, follow bool, fn func(m jetstream.Msg, meta *jetstream.MsgMetadata) bool) error {
	ctx, cancel := b.link.Connection(ctx)
	defer cancel()
	cons, err := b.stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from, InactiveThreshold: forgetAfter})
	if err != nil {
		return err
	}
	if info := cons.CachedInfo(); info != nil && info.NumPending == 0 && !follow {
		return errNone
	}
	late := time.AfterFunc(overdue, func() {
		if !follow {
			cancel()
		}
	})
	defer late.Stop()
	err = natsclient.Each(ctx, cons, stopTimeout, func(m jetstream.Msg) error {
		late.Reset(overdue)
		meta, err := m.Metadata()
		switch {
		case err != nil:
			return err
		case !fn(m, meta):
			return errEnough
		case meta.NumPending == 0 && !follow:
			return errNone
		}
		return nil
	}, jetstream.PullHeartbeat(lookEvery))
	if err == errEnough {
		return nil
	}
	return err
}

// logged is a message of the log; event is nil where it is none.
type logged struct {
	seq    uint64
	stored time.Time
	event  *alarm.Logged
}

// follow hands the messages of the log on, from one on and as they come, until ctx ends.
func (b *book) follow(ctx context.Context, from uint64, fn func(logged)) error {
	return b.messages(ctx, from, true, func(m jetstream.Msg, meta *jetstream.MsgMetadata) bool {
		one := logged{seq: meta.Sequence.Stream, stored: meta.Timestamp}
		if m.Subject() != wire.AlarmRecordSubject(b.job) && m.Subject() != wire.AlarmStateSubject(b.job) {
			e, err := parseLogged(m.Data(), m.Headers())
			if err != nil {
				b.skip(one.seq, m.Subject(), err)
			} else {
				one.event = &e
			}
		}
		fn(one)
		return true
	})
}

// parseLogged reads an event of the log with its headers.
func parseLogged(data []byte, h nats.Header) (one alarm.Logged, err error) {
	var by []alarm.Place
	if one.Event, err = alarm.Unmarshal(data); err == nil {
		one.Judged, err = alarm.ParsePlaces(h.Get(wire.HeaderJudged))
	}
	if err == nil {
		by, err = alarm.ParsePlaces(h.Get(wire.HeaderPrediction))
	}
	if len(by) > 0 {
		one.By = by[0]
	}
	return one, err
}
