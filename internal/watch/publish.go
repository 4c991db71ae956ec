package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// publishEvent publishes an event.
func (b *book) publishEvent(ctx context.Context, e *alarm.Logged) error {
	m, err := b.eventMessage(e)
	if err != nil {
		return err
	}
	return b.publishMessage(ctx, m)
}

// eventMessage returns the log message for an event.
func (b *book) eventMessage(e *alarm.Logged) (*nats.Msg, error) {
	data, err := e.Event.Marshal()
	if err != nil {
		return nil, err
	}
	subject := wire.AlarmRulesSubject(b.job)
	if e.Event.Kind != alarm.RulesChanged {
		subject = wire.AlarmSubject(b.job, e.Event.Rule, alarm.Token(e.Event.Key))
	}
	m := b.newMessage(subject, data)
	if text := alarm.PlacesText(e.Judged); text != "" {
		m.Header.Set(wire.HeaderJudged, text)
	}
	if e.By != (alarm.Place{}) {
		m.Header.Set(wire.HeaderPrediction, alarm.PlacesText([]alarm.Place{e.By}))
	}
	return m, nil
}

// newMessage returns a message of the log.
func (b *book) newMessage(subject string, data []byte) *nats.Msg {
	return &nats.Msg{Subject: subject, Data: data, Header: nats.Header{wire.HeaderKind: {wire.KindAlarm}, wire.HeaderWorker: {b.writer}}}
}

// publishMessage publishes a message after the last message, and returns when the server has stored
// the message.
func (b *book) publishMessage(ctx context.Context, m *nats.Msg) error {
	warned := time.Time{}
	for {
		m.Header.Set(jetstream.ExpectedLastSeqHeader, strconv.FormatUint(b.last, 10))
		try, cancel := b.link.Attempt(ctx)
		ack, err := b.js.PublishMsg(try, m, jetstream.WithRetryAttempts(0))
		cancel()
		if err == nil {
			b.last = ack.Sequence
			return nil
		}
		if errors.Is(err, nats.ErrConnectionClosed) { // permanently
			return fmt.Errorf("watch: %w", err)
		}
		before := b.last
		if done, err := b.resolvePublish(ctx, m, err); done || err != nil {
			return err
		}
		if b.last > before { // a foreign message was skipped
			continue
		}
		if time.Since(warned) > warnEvery {
			warned = time.Now()
			b.log.Warn("the server does not store the alarms: retrying", "stream", wire.AlarmStream(b.job), "err", err)
		}
		if err := store.Pause(ctx, store.RetryWait); err != nil {
			return err
		}
	}
}

// resolvePublish finds out whether a message without a confirmation was stored. If done is false
// and the error is nil, the caller may resend the message.
func (b *book) resolvePublish(ctx context.Context, m *nats.Msg, cause error) (done bool, err error) {
	if store.IsRefused(cause) && !store.OvertakenBy(cause) && !unavailable(cause) {
		return false, fmt.Errorf("watch: the server refuses a message of %s: %w", wire.AlarmStream(b.job), cause)
	}
	for again := false; ; again = true {
		try, cancel := b.link.Attempt(ctx)
		there, err := b.stream.GetMsg(try, b.last+1)
		cancel()
		switch {
		case err == nil && there.Subject == m.Subject && bytes.Equal(there.Data, m.Data) && there.Header.Get(wire.HeaderWorker) == b.writer:
			b.last++
			return true, nil
		case err == nil && b.skipForeign(there):
			return false, nil
		case err == nil:
			return false, fmt.Errorf("%w: message %d of %s is of %s", ErrFenced, b.last+1, wire.AlarmStream(b.job), there.Header.Get(wire.HeaderWorker))
		case !errors.Is(err, jetstream.ErrMsgNotFound):
			return false, nil // the server is unreachable
		}
		if err = b.checkWriter(ctx); again || !errors.Is(err, ErrFenced) {
			return false, err
		}
		// The server stored a message between the two queries, possibly this message.
	}
}

// unavailable reports whether the server refuses only temporarily.
func unavailable(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.Code >= 500
}

// errUnknown means that the server did not confirm the writer.
var errUnknown = errors.New("the server does not answer")
