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
	// HeaderIdempotency has the event's id: an event may come twice.
	HeaderIdempotency = "Idempotency-Key"
	// HeaderSignature is t=T,v1=S, where T is the time in seconds since 1970 and S the
	// HMAC-SHA256 of T, a dot and the body, in hexadecimal digits.
	HeaderSignature = "Eusn-Signature"
)

// Webhook posts the events of a job's alarms to a URL, one after the other, each at
// least once. The server remembers how far it is.
type Webhook struct {
	Job    string
	URL    string
	Secret string        // signs; empty = no signature
	TLS    *tls.Config   // nil = what the system trusts
	First  time.Duration // wait after the first failure, twice as long each time; 0 = a second
	Log    *slog.Logger
}

// Begin is Output's.
func (w *Webhook) Begin(ctx context.Context, nc *nats.Conn) error { return w.queue().begin(ctx, nc) }

// Run is Output's.
func (w *Webhook) Run(ctx context.Context, nc *nats.Conn) error { return w.queue().run(ctx, nc) }

func (w *Webhook) queue() *queue {
	client := newClient(w.TLS)
	return &queue{job: w.Job, name: wire.OutputWebhook, first: w.First, log: w.Log, send: func(ctx context.Context, e *alarm.Event, body []byte) error {
		h := http.Header{HeaderIdempotency: {e.ID}}
		if w.Secret != "" {
			now := strconv.FormatInt(time.Now().Unix(), 10)
			h.Set(HeaderSignature, "t="+now+",v1="+Sign(w.Secret, now, body))
		}
		_, err := post(ctx, client, w.URL, body, h)
		return err
	}}
}

// Sign is the signature of a body that was sent at a time, in seconds since 1970.
func Sign(secret, at string, body []byte) string {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(at + "."))
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}
