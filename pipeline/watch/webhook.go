package watch

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/pipeline/alarm"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

const (
	webhookName = "webhook"        // of the consumer, which remembers what was delivered
	webhookHeld = 30 * time.Second // after that without a word, an event goes to the next process
	postTimeout = 10 * time.Second
	mostBackoff = 15 * time.Second // with a post, less than webhookHeld
)

// Headers of a webhook's requests.
const (
	// HeaderIdempotency has the event's id: an event may come twice.
	HeaderIdempotency = "Idempotency-Key"
	// HeaderSignature is t=T,v1=S, where T is the time in seconds since 1970 and S the
	// HMAC-SHA256 of T, a dot and the body, in hexadecimal digits.
	HeaderSignature = "Eusn-Signature"
)

// Webhook sends the events of a job's alarms to a URL, one after the other, each at
// least once. The server remembers how far it is. A receiver that does not answer holds
// up nothing but this.
type Webhook struct {
	Job    string
	URL    string
	Secret string        // signs; empty = no signature
	First  time.Duration // wait after the first failure, twice as long each time; 0 = a second
	Log    *slog.Logger
}

// Run sends until ctx ends (nil) or the server has no alarm log.
func (w *Webhook) Run(ctx context.Context, nc *nats.Conn) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	for {
		err := w.send(ctx, js)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("watch: webhook: %w", err)
		}
		w.Log.Warn("webhook: reading the alarm log again", "err", err)
		if store.Pause(ctx, lookEvery) != nil {
			return nil
		}
	}
}

// Begin has the server remember from now on what has to be sent. It belongs before the
// first event that is published with a webhook.
func (w *Webhook) Begin(ctx context.Context, nc *nats.Conn) error {
	js, err := jetstream.New(nc)
	if err == nil {
		err = Ensure(ctx, js, w.Job, 0)
	}
	if err == nil {
		_, err = w.consumer(ctx, js)
	}
	if err != nil {
		return fmt.Errorf("watch: webhook: %w", err)
	}
	return nil
}

func (w *Webhook) consumer(ctx context.Context, js jetstream.JetStream) (jetstream.Consumer, error) {
	return js.CreateOrUpdateConsumer(ctx, wire.AlarmStream(w.Job), jetstream.ConsumerConfig{
		Durable: webhookName, FilterSubject: wire.AlarmEvents(w.Job), DeliverPolicy: jetstream.DeliverNewPolicy,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: webhookHeld, MaxAckPending: 1, MaxDeliver: -1,
	})
}

func (w *Webhook) send(ctx context.Context, js jetstream.JetStream) error {
	cons, err := w.consumer(ctx, js)
	if err != nil {
		return err
	}
	for {
		m, err := cons.Next(jetstream.FetchContext(ctx))
		if errors.Is(err, nats.ErrTimeout) || errors.Is(err, jetstream.ErrNoMessages) {
			continue
		}
		if err != nil {
			return err
		}
		if err := w.deliver(ctx, m); err != nil {
			_ = m.Nak() // the next process, or this one, gets it at once
			return err
		}
	}
}

// errUnwanted is a receiver that refuses one event for good.
var errUnwanted = errors.New("the receiver refuses this event")

// deliver sends a message until the receiver has it.
func (w *Webhook) deliver(ctx context.Context, m jetstream.Msg) error {
	e, err := alarm.Unmarshal(m.Data())
	if err != nil {
		w.Log.Warn("webhook: a message of the alarm log is no event, and is left out", "subject", m.Subject(), "err", err)
		return acknowledge(ctx, m)
	}
	for wait := cmp.Or(w.First, time.Second); ; wait = min(2*wait, mostBackoff) {
		err := w.post(ctx, &e, m.Data())
		if errors.Is(err, errUnwanted) {
			w.Log.Error("webhook: an event is left out", "number", e.Number, "rule", e.Rule, "key", e.Key, "err", err)
			err = nil
		}
		if err == nil {
			return acknowledge(ctx, m)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.Log.Warn("webhook: an event was not taken: trying again", "number", e.Number, "in", wait, "err", err)
		if err := errors.Join(m.InProgress(), store.Pause(ctx, wait)); err != nil {
			return err
		}
	}
}

// acknowledge says that an event is delivered, also where ctx ends now.
func acknowledge(ctx context.Context, m jetstream.Msg) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), postTimeout)
	defer cancel()
	return m.DoubleAck(ctx)
}

// client follows no redirect: another address would be asked with GET and without the
// event, and its answer would not be about it.
var client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// post sends an event once.
func (w *Webhook) post(ctx context.Context, e *alarm.Event, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return withoutURL(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(HeaderIdempotency, e.ID)
	if w.Secret != "" {
		now := strconv.FormatInt(time.Now().Unix(), 10)
		r.Header.Set(HeaderSignature, "t="+now+",v1="+Sign(w.Secret, now, body))
	}
	answer, err := client.Do(r)
	if err != nil {
		return withoutURL(err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so that the connection is used again
	switch code := answer.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code == http.StatusBadRequest, code == http.StatusRequestEntityTooLarge, code == http.StatusUnprocessableEntity:
		return fmt.Errorf("%w: %s", errUnwanted, answer.Status)
	default:
		return fmt.Errorf("the receiver answers %s", answer.Status)
	}
}

// withoutURL leaves the address out of an error: it may hold a password.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// Sign is the signature of a body that was sent at a time, in seconds since 1970.
func Sign(secret, at string, body []byte) string {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(at + "."))
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}
