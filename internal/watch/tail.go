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

// readTail reads the log's events from a message on. It uses one consumer: an old state has a long
// tail, and single requests would be slow. It retries while the server is unreachable.
func (b *book) readTail(ctx context.Context, from uint64) (events []alarm.Logged, err error) {
	next := from
	take := func(m jetstream.Msg, seq uint64) {
		if next = seq + 1; seq > b.last || m.Subject() == wire.AlarmRecordSubject(b.job) || m.Subject() == wire.AlarmStateSubject(b.job) {
			return
		}
		e, err := parseLogged(m.Data(), m.Headers())
		if err != nil {
			b.logForeign(seq, m.Subject(), err)
			return
		}
		events = append(events, e)
	}
	for next <= b.last { // the last message exists: this process or another process has written it
		if err := b.readMessages(ctx, next, false, func(m jetstream.Msg, meta *jetstream.MsgMetadata) bool {
			take(m, meta.Sequence.Stream)
			return next <= b.last
		}); err != nil {
			if ctx.Err() != nil || errors.Is(err, nats.ErrConnectionClosed) {
				return nil, err
			}
			if err := b.checkWriter(ctx); err != nil { // the server may have lost the tail
				return nil, err
			}
			if err := store.Pause(ctx, store.RetryWait); err != nil {
				return nil, err
			}
		}
	}
	return events, nil
}

// errNoMessage means that no further message exists, errEnough that no further message is wanted.
var errNoMessage, errEnough = errors.New("no message exists"), errors.New("enough messages read")

// messageTimeout is the timeout for reading an existing message.
const messageTimeout = 10 * time.Second

// readMessages passes messages from a number on to fn while fn returns true. Without follow it ends
// after the existing messages; with follow it waits for new messages while the connection lasts.
func (b *book) readMessages(ctx context.Context, from uint64, follow bool, fn func(m jetstream.Msg, meta *jetstream.MsgMetadata) bool) error {
	ctx, cancel := b.link.Connection(ctx)
	defer cancel()
	cons, err := b.stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from, InactiveThreshold: forgetAfter})
	if err != nil {
		return err
	}
	if info := cons.CachedInfo(); info != nil && info.NumPending == 0 && !follow {
		return errNoMessage
	}
	late := time.AfterFunc(messageTimeout, func() {
		if !follow {
			cancel()
		}
	})
	defer late.Stop()
	err = natsclient.Each(ctx, cons, stopTimeout, func(m jetstream.Msg) error {
		late.Reset(messageTimeout)
		meta, err := m.Metadata()
		switch {
		case err != nil:
			return err
		case !fn(m, meta):
			return errEnough
		case meta.NumPending == 0 && !follow:
			return errNoMessage
		}
		return nil
	}, jetstream.PullHeartbeat(checkEvery))
	if err == errEnough {
		return nil
	}
	return err
}

// logMessage is a message of the log; event is nil for other messages.
type logMessage struct {
	seq    uint64
	stored time.Time
	event  *alarm.Logged
}

// followMessages passes the messages of the log to fn, from a number on, until ctx ends.
func (b *book) followMessages(ctx context.Context, from uint64, fn func(logMessage)) error {
	return b.readMessages(ctx, from, true, func(m jetstream.Msg, meta *jetstream.MsgMetadata) bool {
		msg := logMessage{seq: meta.Sequence.Stream, stored: meta.Timestamp}
		if m.Subject() != wire.AlarmRecordSubject(b.job) && m.Subject() != wire.AlarmStateSubject(b.job) {
			e, err := parseLogged(m.Data(), m.Headers())
			if err != nil {
				b.logForeign(msg.seq, m.Subject(), err)
			} else {
				msg.event = &e
			}
		}
		fn(msg)
		return true
	})
}

// parseLogged parses an event of the log and its headers.
func parseLogged(data []byte, h nats.Header) (event alarm.Logged, err error) {
	var by []alarm.Place
	if event.Event, err = alarm.Unmarshal(data); err == nil {
		event.Judged, err = alarm.ParsePlaces(h.Get(wire.HeaderJudged))
	}
	if err == nil {
		by, err = alarm.ParsePlaces(h.Get(wire.HeaderPrediction))
	}
	if len(by) > 0 {
		event.By = by[0]
	}
	return event, err
}
