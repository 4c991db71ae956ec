package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// flight is a message without an answer. Its stream has no other, so that no
// failure changes the order of a stream.
type flight struct {
	s    *stream
	sent time.Time
	size int
}

type answer struct {
	msg *nats.Msg
	err error
}

// hold is why and since when the gateway holds back.
type hold struct {
	server bool // the server takes nothing: one message at a time is tried
	disk   bool // the outbox cannot be written
	full   bool // the outbox is full, told
	why    string
	since  time.Time
	probe  time.Time // when to try again
}

// pump seals what is due and publishes what is ready. It returns how long
// nothing is due by itself; math.MaxInt64 = for ever.
func (g *Gateway) pump(now time.Time) time.Duration {
	if g.hold.disk && !now.Before(g.hold.probe) {
		g.hold.probe = now.Add(probeEvery)
		g.writeAgain()
	}
	wait := min(g.sealDue(now), g.sealGrown(now))
	for len(g.stuck) > 0 && !now.Before(g.stuck[0].again) {
		g.ready = append(g.ready, g.stuck[0])
		g.stuck = g.stuck[1:]
	}
	if len(g.stuck) > 0 {
		wait = min(wait, g.stuck[0].again.Sub(now))
	}
	g.publishReady(now)
	if g.hold.disk || g.hold.server && len(g.ready) > 0 && len(g.flight) == 0 {
		wait = min(wait, max(g.hold.probe.Sub(now), time.Millisecond))
	}
	return wait
}

// sealDue seals the open batches that are due; one whose stream has a batch on its way may
// grow instead. It returns how long nothing more is due.
func (g *Gateway) sealDue(now time.Time) time.Duration {
	for len(g.opened) > 0 {
		b := g.opened[0]
		if left := b.begun.Add(g.cfg.Latency).Sub(now); !b.sealed && left > 0 {
			return left
		}
		g.opened[0] = nil
		g.opened = g.opened[1:]
		if b.sealed {
			continue
		}
		if b.due = true; len(b.s.queue) == 0 {
			g.seal(b)
		} else {
			g.growing = append(g.growing, b)
		}
	}
	return math.MaxInt64
}

// publishReady publishes of the streams that are ready, as far as there is room on the way. A
// server that does not answer is probed with one.
func (g *Gateway) publishReady(now time.Time) {
	for len(g.ready) > 0 && len(g.flight) < flights && g.flying < flightBytes {
		if g.hold.server && (len(g.flight) > 0 || g.hold.probe.After(now)) {
			return
		}
		s := g.ready[0]
		g.ready[0] = nil
		g.ready = g.ready[1:]
		g.publish(s)
	}
}

// sealGrown seals batches that have waited long for the answer of the one before:
// nobody sends again what devices that wait for no answer have in them. It
// returns how long no other is.
func (g *Gateway) sealGrown(now time.Time) time.Duration {
	for len(g.growing) > 0 {
		b := g.growing[0]
		if left := b.begun.Add(growTime).Sub(now); !b.sealed && left > 0 {
			return left
		}
		g.growing[0] = nil
		if g.growing = g.growing[1:]; !b.sealed {
			g.seal(b)
		}
	}
	return math.MaxInt64
}

// publish sends the first message of a stream's queue.
func (g *Gateway) publish(s *stream) {
	b := s.queue[0]
	data, err := g.out.Payload(b)
	if err != nil {
		g.setAside(s, err, "the outbox cannot be read: check its disk (gateway.outbox); the stream waits")
		return
	}
	seq := strconv.FormatUint(b.Seq, 10)
	msg := &nats.Msg{Subject: b.Subject, Data: data, Header: nats.Header{
		wire.HeaderSeq: {seq}, wire.HeaderIncarnation: {b.Incarnation}, wire.HeaderCRC: {fmt.Sprintf("%08x", codec.CRC(data))},
		jetstream.MsgIDHeader: {b.Subject + ":" + b.Incarnation + ":" + seq},
	}}
	if bytes.Equal(data, g.end) {
		msg.Header.Set(wire.HeaderEnd, "true")
	}
	if b.Unreadable != "" {
		msg.Header[wire.HeaderUnreadable] = []string{b.Unreadable}
	}
	if b.Span != nil {
		b.Span.Context.Put(msg.Header)
	}
	g.flight[msg] = &flight{s, time.Now(), len(data)}
	g.flying += len(data)
	if _, err := g.js.PublishMsgAsync(msg, jetstream.WithRetryAttempts(0)); err != nil {
		g.answered(answer{msg, err})
	}
}

// answered takes a message out of flight.
func (g *Gateway) answered(a answer) {
	f := g.flight[a.msg]
	if f == nil {
		return // an answer to an attempt that was given up
	}
	delete(g.flight, a.msg)
	g.flying -= f.size
	if a.err != nil {
		g.failed(f.s, a.err)
		return
	}
	s := f.s
	b := s.queue[0]
	s.queue[0] = nil
	s.queue = s.queue[1:]
	s.busy = false
	if err := g.out.Done(b); err != nil {
		g.diskFailed(err) // the message is sent again by the next run, under its number
	}
	for _, stored := range b.Stored {
		stored()
	}
	b.Stored = nil
	if b.Span != nil {
		b.Span.End = time.Now()
		g.cfg.Tracer.Record(b.Span)
		b.Span = nil
	}
	g.serverTakes()
	if o := s.open; o != nil && o.due && len(s.queue) == 0 {
		g.seal(o)
	}
	g.enqueue(s)
}

// giveUpLate sends again what the client has given no answer for, though it
// should after answerTimeout. The server stores it once: it knows the message's
// id, and the stage its number.
func (g *Gateway) giveUpLate() {
	for msg, f := range g.flight {
		if time.Since(f.sent) > 2*answerTimeout {
			g.answered(answer{msg, nats.ErrTimeout})
		}
	}
}

// setAside keeps a message for another attempt, while other streams continue.
func (g *Gateway) setAside(s *stream, err error, why string) {
	g.stats.retries.Add(1)
	s.again = time.Now().Add(asideEvery)
	g.stuck = append(g.stuck, s)
	g.told.say(why, "stream "+s.key, err)
}

// failed keeps a message for another attempt, and holds back.
func (g *Gateway) failed(s *stream, err error) {
	if tooLarge(err) {
		g.setAside(s, err, "the server does not take a message of this size: raise max_msg_size of the job's input, or max_payload of the server; the stream waits")
		return
	}
	g.stats.retries.Add(1)
	now := time.Now()
	g.ready = append(g.ready, s) // the others have their turn before
	why := g.meaning(s, err)
	g.hold.probe = now.Add(probeEvery)
	if !g.hold.server {
		g.hold.server, g.hold.since = true, now
		g.hold.why = ""
	}
	if why != g.hold.why {
		g.hold.why = why
		g.cfg.Log.Warn("holding back: "+why, "stream", s.key, "err", natsclient.Plain(err))
	}
	g.stats.held.Store(true)
}

// tooLarge reports whether the server will not take this message for its size.
func tooLarge(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, nats.ErrMaxPayload) || errors.As(err, &api) && strings.Contains(api.Description, "message size")
}

// meaning is what a refusal means and what to do.
func (g *Gateway) meaning(s *stream, err error) string {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return "nothing on the server takes " + g.subject(s.key) + ": start the stage of the job once (eusn-stream run), which makes its NATS streams"
	case errors.As(err, &api) && strings.Contains(api.Description, "maximum"):
		return "the job's input is full: raise input.max_bytes, let input.max_age remove old input, or free space; until then devices get no acknowledgement"
	case errors.As(err, &api):
		return "the server refuses messages: check its disk and the limits of the job's input; until then devices get no acknowledgement"
	case errors.Is(err, nats.ErrTimeout), errors.Is(err, jetstream.ErrAsyncPublishTimeout):
		return "the server does not answer: check its disk and its load; until then devices get no acknowledgement"
	}
	return "the server is not reached; until then devices get no acknowledgement"
}

// serverTakes notes that the server has taken a message.
func (g *Gateway) serverTakes() {
	if !g.hold.server {
		return
	}
	g.hold.server = false
	g.stats.held.Store(g.hold.disk)
	g.cfg.Log.Info("the server takes messages again", "after", time.Since(g.hold.since).Round(time.Millisecond), "waiting", g.out.Waiting())
}

func (g *Gateway) diskFailed(err error) {
	if !g.hold.disk {
		g.hold.since = time.Now()
		g.cfg.Log.Error("holding back: the outbox cannot be written: free space in its directory (gateway.outbox); devices get no acknowledgement for what cannot be written", "err", err)
	}
	g.hold.disk, g.hold.probe = true, time.Now().Add(probeEvery)
	g.stats.held.Store(true)
}

func (g *Gateway) diskWorks() {
	if g.hold.disk {
		g.hold.disk = false
		g.stats.held.Store(g.hold.server)
		g.cfg.Log.Info("the outbox can be written again")
	}
}

// note brings the counters up to date and says when the outbox is full.
func (g *Gateway) note() {
	g.stats.waiting.Store(int64(g.out.Waiting()))
	bytes := g.out.Bytes()
	g.stats.bytes.Store(bytes)
	if full := bytes+int64(g.waiting) > g.cfg.OutboxBytes; full != g.hold.full {
		g.hold.full = full
		if full {
			g.cfg.Log.Warn("the outbox is full: nothing is taken from devices until the server has taken some of it; lines over UDP are dropped and counted", "bytes", bytes, "gateway.outbox_bytes", g.cfg.OutboxBytes)
		} else {
			g.cfg.Log.Info("the outbox has room again")
		}
	}
}
