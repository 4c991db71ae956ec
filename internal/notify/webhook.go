package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Headers of a webhook's requests.
const (
	// HeaderIdempotency has the event's ID: an event may be sent twice.
	HeaderIdempotency = "Idempotency-Key"
	// HeaderSignature is t=T,v1=S: T is the time in seconds since 1970, S the HMAC-SHA256 of T, a
	// dot and the body, in hexadecimal digits.
	HeaderSignature = "Eusn-Signature"
)

// Webhook posts the events of a job's alarms to a URL, in order, each at least once. The server
// stores the output's position.
type Webhook struct {
	Job    string
	URL    string
	Secret string        // signing key; empty = no signature
	TLS    *tls.Config   // nil = the system's certificates
	First  time.Duration // wait after the first failure, doubled each time; 0 = 1 s
	Log    *slog.Logger
}

// Prepare implements Output.
func (w *Webhook) Prepare(ctx context.Context, nc *nats.Conn) error {
	return w.newQueue().prepare(ctx, nc)
}

// Run implements Output.
func (w *Webhook) Run(ctx context.Context, nc *nats.Conn) error {
	return w.newQueue().runUntilDone(ctx, nc)
}

func (w *Webhook) newQueue() *queue {
	client := newClient(w.TLS)
	return &queue{job: w.Job, name: wire.OutputWebhook, first: w.First, log: w.Log, sendEvent: func(ctx context.Context, e *alarm.Event, body []byte) error {
		h := http.Header{HeaderIdempotency: {e.ID}}
		if w.Secret != "" {
			now := strconv.FormatInt(time.Now().Unix(), 10)
			h.Set(HeaderSignature, "t="+now+",v1="+Sign(w.Secret, now, body))
		}
		_, err := postJSON(ctx, client, w.URL, body, h)
		return err
	}}
}

// Sign returns the signature of a body sent at a time, in seconds since 1970.
func Sign(secret, at string, body []byte) string {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(at + "."))
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}
