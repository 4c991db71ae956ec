package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

const (
	// copiedHeaders is how many bytes of an input message's headers its dead
	// letter repeats. With ours added to 64 kB of them the server would refuse
	// the dead letter; Config.MaxMessage leaves room for this much.
	copiedHeaders = 8 << 10
	// deadLetterPatience is longer than a cluster takes to choose a leader.
	deadLetterPatience = 2 * store.CommitTimeout
)

// publishDead sends a message to the dead letters with its reason. The body is
// cut only where the server would take nothing else; the original is still in
// the input under Eusn-In-Seq.
func (e *emitter) publishDead(ctx context.Context, d *rejected) error {
	h, dropped := copyHeaders(d.Msg.Header, copiedHeaders)
	if dropped > 0 {
		h.Set(wire.HeaderDropped, strconv.Itoa(dropped))
	}
	h.Set(wire.HeaderError, d.Reason)
	h.Set(wire.HeaderReason, d.Why.String())
	h.Set(wire.HeaderInSeq, strconv.FormatUint(d.Msg.Seq, 10))
	h.Set(wire.HeaderInSubject, wire.InputSubject(e.job, d.part.state.ID, d.Msg.Key))
	h.Set(jetstream.MsgIDHeader, deadLetterID(e.job, d))
	msg := &nats.Msg{Subject: wire.DeadLetterSubject(e.job, d.part.state.ID), Header: h, Data: d.Msg.Data}
	most := e.limit + store.HeaderRoom
	if len(msg.Data) > most-headerBytes(h) {
		h.Set(wire.HeaderTruncated, strconv.Itoa(len(d.Msg.Data)))
		msg.Data = msg.Data[:max(0, most-headerBytes(h))]
	}
	return e.publishOnce(ctx, d.part.owner, msg)
}

// publishOnce publishes a message with an id until the server has it. A server
// that is there and refuses it, or does not answer for deadLetterPatience,
// gives the partition up for a while: the others' answers wait behind it.
func (e *emitter) publishOnce(ctx context.Context, t *ownership, msg *nats.Msg) error {
	what := "dead letter on " + msg.Subject
	var since time.Time // when the server, being there, first did not answer
	for {
		try, cancel := e.link.Attempt(ctx)
		_, err := e.js.PublishMsg(try, msg)
		late := try.Err() == context.DeadlineExceeded
		cancel()
		switch {
		case err == nil:
			t.taken()
			return nil
		case ctx.Err() != nil || errors.Is(err, nats.ErrConnectionClosed):
			return fmt.Errorf("%w: %s", errUnfinished, what)
		case !store.Refused(err) && !store.Unheard(err) && !late: // the server is away
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		}
		if store.Refused(err) || !since.IsZero() && time.Since(since) > deadLetterPatience {
			return fmt.Errorf("pipeline: %s is not taken: %w: make room in %s, restore it or undo what was changed, or let the stage publish there: %w", what, err, wire.DeadLetterStream(e.job), store.ErrLater)
		}
		e.counters.Retries.Add(1)
		if err := t.waits(what, err); err != nil {
			return err
		}
		_ = store.Pause(ctx, store.RetryWait) // the next attempt fails by itself if ctx has ended
	}
}

// deadLetterID is the same for each attempt to publish a dead letter. A message
// that came with an imported state has no place in the input, but a number
// among its key's.
func deadLetterID(job string, d *rejected) string {
	if d.Msg.Seq == 0 {
		return fmt.Sprintf("%s.%d.0.%s.%s", job, d.part.state.ID, d.Msg.Key, wire.Get(d.Msg.Header, wire.HeaderSeq))
	}
	return fmt.Sprintf("%s.%d.%d", job, d.part.state.ID, d.Msg.Seq)
}

// copyHeaders returns the headers of an input message that fit a budget of
// bytes, in alphabetical order so that a repeat drops the same, and how many
// do not.
func copyHeaders(from wire.Header, budget int) (h nats.Header, dropped int) {
	h = nats.Header{}
	for _, k := range slices.Sorted(maps.Keys(from)) {
		name := k
		if strings.HasPrefix(k, "Nats-") {
			name = "Eusn-In-" + k // the server would obey it again
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

// headerBytes is what headers take on the wire: a line "name: value" for each
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
