package gateway

import (
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/gateway/internal/outbox"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/producer"
)

// store is the outbox: the lanes keep messages without an answer there.
type store struct{ g *Gateway }

func (s store) Put(m *producer.Message) error {
	err := s.g.out.Put(batchOf(m))
	if err != nil {
		s.g.diskFailed(err)
	}
	return err
}

func (s store) Payload(m *producer.Message) ([]byte, error) {
	data, err := s.g.out.Payload(batchOf(m))
	if err != nil {
		s.g.stats.retries.Add(1)
		s.g.told.logComplaint("the outbox cannot be read: check its disk (gateway.outbox); the stream waits", "stream "+s.g.keyOf(m.Subject), err)
	}
	return data, err
}

func (s store) Done(m *producer.Message) {
	if err := s.g.out.Done(batchOf(m)); err != nil {
		s.g.diskFailed(err)
		s.g.hold.answers = append(s.g.hold.answers, m.Stored...)
		m.Stored = nil
	}
}

// batchOf is a message in the outbox.
func batchOf(m *producer.Message) *outbox.Batch {
	if m.Owner == nil {
		m.Owner = &outbox.Batch{Message: m}
	}
	return m.Owner.(*outbox.Batch)
}

// hold is why the gateway holds back.
type hold struct {
	server bool // the server takes nothing
	disk   bool // the outbox cannot be written
	full   bool // a full outbox was reported
	why    string
	probe  time.Time // time of the next attempt to write to the outbox
	// answers to devices, whose messages are stored while the outbox cannot note this: the
	// next run would take a message of an answered device for an unanswered message.
	answers []func()
}

// pumpLanes publishes due messages. pumpLanes returns the time until the next due
// message; math.MaxInt64 = none.
func (g *Gateway) pumpLanes(now time.Time) time.Duration {
	if g.hold.disk && !now.Before(g.hold.probe) {
		g.hold.probe = now.Add(probeEvery)
		if g.out.WriteAgain() == nil {
			for _, stored := range g.hold.answers {
				stored()
			}
			g.hold.answers = nil
			if g.lanes.WriteAgain() {
				g.diskWorks()
			}
		}
	}
	wait := g.lanes.Pump(now)
	if g.hold.disk {
		wait = min(wait, max(g.hold.probe.Sub(now), time.Millisecond))
	}
	return wait
}

// judgeRefusal counts an unstored message, and logs the reason for the wait of the
// gateway, or of the message's stream.
func (g *Gateway) judgeRefusal(s *producer.Lane, err error) (aside bool) {
	g.stats.retries.Add(1)
	if tooLarge(err) {
		g.told.logComplaint("the server refuses a message of this size: raise max_msg_size of the job's input, or max_payload of the server; the stream waits", "stream "+s.Key, err)
		return true
	}
	g.hold.server = true
	if why := refusalMeaning(s, err); why != g.hold.why {
		g.hold.why = why
		g.cfg.Log.Warn("holding back: "+why, "stream", s.Key, "err", natsclient.Plain(err))
	}
	g.stats.held.Store(true)
	return false
}

// tooLarge reports whether the message's size is the reason for the server's refusal.
func tooLarge(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, nats.ErrMaxPayload) || errors.As(err, &api) && strings.Contains(api.Description, "message size")
}

// refusalMeaning returns the meaning of a refusal and the remedy.
func refusalMeaning(s *producer.Lane, err error) string {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return "no NATS stream on the server stores " + s.Subject + ": start a worker of the job once, which creates its NATS streams"
	case errors.As(err, &api) && strings.Contains(api.Description, "maximum"):
		return "the job's input is full: raise input.max_bytes, let input.max_age remove old input, or free space; until then devices get no acknowledgement"
	case errors.As(err, &api):
		return "the server refuses messages: check its disk and the limits of the job's input; until then devices get no acknowledgement"
	case errors.Is(err, nats.ErrTimeout), errors.Is(err, jetstream.ErrAsyncPublishTimeout):
		return "the server does not answer: check its disk and its load; until then devices get no acknowledgement"
	}
	return "the server is not reached; until then devices get no acknowledgement"
}

// serverTakes records a message accepted by the server.
func (g *Gateway) serverTakes(after time.Duration) {
	g.hold.server, g.hold.why = false, ""
	g.stats.held.Store(g.hold.disk)
	g.cfg.Log.Info("the server takes messages again", "after", after.Round(time.Millisecond), "waiting", g.out.Waiting())
}

func (g *Gateway) diskFailed(err error) {
	if !g.hold.disk {
		g.cfg.Log.Error("holding back: the outbox cannot be written: check its directory (gateway.outbox) and the free space there; devices get no acknowledgement for these messages", "err", err)
	}
	g.hold.disk, g.hold.probe = true, time.Now().Add(probeEvery)
	g.stats.held.Store(true)
	g.stats.unwritable.Store(true)
}

func (g *Gateway) diskWorks() {
	if g.hold.disk {
		g.hold.disk = false
		g.stats.held.Store(g.hold.server)
		g.stats.unwritable.Store(false)
		g.cfg.Log.Info("the outbox can be written again")
	}
}

// noteOutbox updates the counters and reports a full outbox.
func (g *Gateway) noteOutbox() {
	g.stats.batches.Store(g.lanes.Numbered)
	g.stats.waiting.Store(int64(g.out.Waiting()))
	bytes := g.out.Bytes()
	g.stats.bytes.Store(bytes)
	if full := bytes+int64(g.lanes.OpenBytes) > g.cfg.OutboxBytes; full != g.hold.full {
		g.hold.full = full
		if full {
			g.cfg.Log.Warn("the outbox is full: the gateway accepts no messages until the server has stored some of them; lines over UDP are dropped and counted", "bytes", bytes, "gateway.outbox_bytes", g.cfg.OutboxBytes)
		} else {
			g.cfg.Log.Info("the outbox has free space again")
		}
	}
}
