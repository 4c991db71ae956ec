package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

const (
	// copiedHeaders is how many bytes of an input message's headers its dead letter
	// repeats. With the stage's headers added to 64 kB of headers, the server would
	// refuse the dead letter; Config.MaxMessage leaves room for this size.
	copiedHeaders = 8 << 10
)

// DeadLetter is an unusable input message, and the reason.
type DeadLetter struct {
	Part   int
	Seq    uint64 // of the message in the input; 0 = from an imported state
	Key    string
	Header wire.Header // of the message
	Data   []byte      // of the message
	Reason wire.Reason
	Text   string // the reason for people, a line
}

// DeadLetters publishes a job's dead letters. Several goroutines may.
type DeadLetters struct {
	JS      jetstream.JetStream
	Link    *Link // of js
	Job     string
	Input   string // the job whose input holds the messages
	Limit   int    // largest message that the server accepts, bytes, headers included
	Retries func()
}

// Waiter observes a write to the server.
type Waiter interface {
	// RetryLater is called when the server did not accept a request, which is retried;
	// its error ends the retries.
	RetryLater(what string, err error) error
	// NoteTaken is called when the server has accepted the request.
	NoteTaken()
}

// Publish sends a message to the dead letters with its reason. The body is
// cut only where the server would take nothing else; the original is still in
// the input under Eusn-In-Seq.
func (e *DeadLetters) Publish(ctx context.Context, d *DeadLetter, w Waiter) error {
	h, dropped := copyHeaders(d.Header, copiedHeaders)
	if dropped > 0 {
		h.Set(wire.HeaderDropped, strconv.Itoa(dropped))
	}
	h.Set(wire.HeaderError, d.Text)
	h.Set(wire.HeaderReason, d.Reason.String())
	h.Set(wire.HeaderInSeq, strconv.FormatUint(d.Seq, 10))
	h.Set(wire.HeaderInSubject, wire.InputSubject(cmp.Or(e.Input, e.Job), d.Part, d.Key))
	h.Set(jetstream.MsgIDHeader, e.messageID(d))
	msg := &nats.Msg{Subject: wire.DeadLetterSubject(e.Job, d.Part), Header: h, Data: d.Data}
	if most := e.Limit; len(msg.Data) > most-headerBytes(h) {
		h.Set(wire.HeaderTruncated, strconv.Itoa(len(d.Data)))
		msg.Data = msg.Data[:max(0, most-headerBytes(h))]
	}
	p := patiently{e.JS, e.Link, e.Retries}
	return p.publishUntilStored(ctx, msg, "dead letter", wire.DeadLetterStream(e.Job), w)
}

// messageID is equal for all attempts to publish a dead letter. A message from an
// imported state has no position in the input, but a number among its key's numbers.
func (e *DeadLetters) messageID(d *DeadLetter) string {
	if d.Seq == 0 {
		return fmt.Sprintf("%s.%d.0.%s.%s", e.Job, d.Part, d.Key, wire.Get(d.Header, wire.HeaderSeq))
	}
	return fmt.Sprintf("%s.%d.%d", e.Job, d.Part, d.Seq)
}

// ofDeadLetters are the headers that a stage sets in a dead letter. A producer could
// hide dead letters with such headers.
var ofDeadLetters = []string{wire.HeaderKind, wire.HeaderTruncated, wire.HeaderDropped, wire.HeaderError, wire.HeaderReason, wire.HeaderInSeq, wire.HeaderInSubject}

// copyHeaders returns the headers of an input message within a budget of bytes, in
// alphabetical order so that a repeat drops the same headers, and the number of dropped
// headers.
func copyHeaders(from wire.Header, budget int) (h nats.Header, dropped int) {
	h = nats.Header{}
	for _, k := range slices.Sorted(maps.Keys(from)) {
		name := k
		if strings.HasPrefix(k, "Nats-") || slices.Contains(ofDeadLetters, k) {
			name = "Eusn-In-" + k // the server would obey the header, or readers would attribute the header to the stage
		}
		size := headerBytes(nats.Header{name: from[k]})
		if size > budget {
			dropped++
			continue
		}
		budget -= size
		h[name] = from[k]
	}
	return h, dropped
}

// headerBytes returns the size of headers on the wire: a line "name: value" for each
// value, and the first and the last line.
func headerBytes(h nats.Header) int {
	n := len("NATS/1.0\r\n\r\n")
	for k, vs := range h {
		for _, v := range vs {
			n += len(k) + len(v) + len(": \r\n")
		}
	}
	return n
}
