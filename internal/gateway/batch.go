package gateway

import (
	"fmt"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/gateway/internal/outbox"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/producer"
	"github.com/eusn-stream/eusn-stream/internal/trace"
)

// stream is one stream's progress.
type stream struct {
	lane    *producer.Lane
	doubt   bool        // a power loss may have taken later numbers from the outbox
	sure    bool        // the last number was compared with the input
	lost    uint64      // Message.Lost of the newest message
	held    outbox.Held // messages of single values that wait for a complete sample
	farTime bool        // a time of the stream, far from the clock, was logged
}

// taken is a decoded message for the loop.
type taken struct {
	m      *Message
	sum    uint64
	parts  []Part
	over   bool  // no message: the device may reuse its ID
	answer error // for the device, when all parts are stored
}

// newTicket makes the ticket of the message, with the answer for the device.
func (t *taken) newTicket() *ticket {
	k := &ticket{left: 1, answer: t.answer, done: t.m.Done}
	if len(t.parts) == 1 && t.parts[0].why != "" {
		k.answer = &Unreadable{t.parts[0].why}
	}
	return k
}

// joinEarlier acknowledges a repeated part with the earlier part; false means: the
// earlier part is unknown.
func (g *Gateway) joinEarlier(o outbox.Origin, t *ticket) bool {
	seen, _ := g.out.Sessions.Find(o)
	if seen == nil {
		return false
	}
	if seen.Batch == nil {
		seen.Told()
		return true
	}
	t.left++
	m := seen.Batch.Message
	m.Stored = append(m.Stored, func() { seen.Told(); t.noteStored() })
	return true
}

// addMessage puts a message's samples into the batches of the streams.
func (g *Gateway) addMessage(t *taken, now time.Time) {
	m := t.m
	if t.over {
		g.out.Sessions.Release(m.Session, m.ID)
		return
	}
	o := outbox.Origin{Session: m.Session, ID: m.ID, Sum: t.sum, Again: m.Repeat}
	if m.Input == HTTP && m.Session != "" && g.out.Sessions.Other(o) {
		if m.Done != nil {
			m.Done(refusedf("this Idempotency-Key was used for another content"))
		}
		return
	}
	ticket := t.newTicket()
	o.Kept = m.Kept && ticket.answer == nil // a PUBREC with a fault frees the id at once
	repeated := 0
	for i := range t.parts {
		p := &t.parts[i]
		o.Part = xxh3.HashString(p.Key)
		if m.Repeat && m.Session != "" && g.joinEarlier(o, ticket) {
			repeated++
			continue
		}
		if s := g.streamOf(p.Key); m.addValue == nil {
			g.addPart(s, p, m, o, ticket, now)
		} else {
			g.addValue(s, m, o, ticket, now)
		}
	}
	if repeated > 0 && repeated == len(t.parts) {
		g.stats.repeats.Add(1)
	} else {
		g.stats.messages[m.Input].Add(1)
	}
	ticket.noteStored()
}

// addValue adds a single value to its stream, and the samples that are then complete.
// The last of these samples gets the messages of all their values.
func (g *Gateway) addValue(s *stream, m *Message, o outbox.Origin, t *ticket, now time.Time) {
	parts, included := m.addValue()
	if included {
		g.holdMessage(s, o)
	}
	parts = g.splitParts(parts)
	for i := range parts {
		p := &parts[i]
		p.alone = engine.CheckInputs(p.X, len(g.cfg.Channels)) != nil
		if i == len(parts)-1 {
			p.held = &s.held
		}
		g.addPart(s, p, m, outbox.Origin{}, t, now)
	}
	if !included {
		g.holdMessage(s, o)
	}
}

// holdMessage remembers the message of a single value until its sample is complete.
func (g *Gateway) holdMessage(s *stream, o outbox.Origin) {
	if o.Session != "" {
		g.out.Sessions.Hold(o, &s.held)
	}
}

// splitParts cuts parts of single values into parts that a message to the server can have.
func (g *Gateway) splitParts(parts []Part) []Part {
	ch, empty := len(g.cfg.Channels), g.lanes.MessageBytes(0)
	most := max(1, (g.lanes.MaxBytes-empty)/(g.lanes.MessageBytes(1)-empty))
	var all []Part
	for _, p := range parts {
		for ; len(p.Times) > most; p.X, p.Times, p.Gap = p.X[most*ch:], p.Times[most:], false {
			all = append(all, Part{X: p.X[:most*ch], Times: p.Times[:most], Gap: p.Gap})
		}
		all = append(all, p)
	}
	return all
}

// addPart adds a part of a message to its stream.
func (g *Gateway) addPart(s *stream, p *Part, m *Message, o outbox.Origin, t *ticket, now time.Time) {
	t.left++
	if m.Lost > s.lost {
		s.lost, p.Gap = m.Lost, true
	}
	g.compareTimes(s, p, m.Input, now)
	g.putPart(s, p, o, t, now, &m.Trace)
}

// compareTimes counts samples with times far from the clock, and reports the first of
// each stream.
func (g *Gateway) compareTimes(s *stream, p *Part, in Input, now time.Time) {
	clock := now.UnixNano()
	n, first := wire.CountFarTimes(p.Times, clock)
	g.stats.farTimes.Add(uint64(n))
	if n > 0 && !s.farTime {
		s.farTime = true
		g.told.logComplaint("times of samples are before 2000, or more than a day from the clock: compare input.time_unit and the clock of the device; samples that a device has kept may be right", in.String(),
			fmt.Errorf("stream %q has a sample of %s", names.Cut(s.lane.Key, 80), wire.DescribeFarTime(first, clock)))
	}
}

// ticket answers a device when all parts of the message are stored.
type ticket struct {
	left   int
	answer error
	done   func(error)
}

func (t *ticket) noteStored() {
	if t.left--; t.left == 0 && t.done != nil {
		t.done(t.answer)
	}
}

// putPart adds a part to the open batch of the stream.
func (g *Gateway) putPart(s *stream, p *Part, o outbox.Origin, t *ticket, now time.Time, from *trace.Context) {
	g.makeSure(s)
	if p.Gap {
		g.lanes.BreakOff(s.lane, nextIncarnation(s.lane.Incarnation))
	}
	piece := producer.Piece{X: p.X, Times: p.Times, Ends: p.Ends, End: p.End, Alone: p.alone, Raw: p.raw, Unreadable: p.why}
	if g.cfg.Tracer != nil {
		piece.Trace = *from
	}
	m := g.lanes.Open(s.lane, &piece, now)
	if p.held != nil {
		batchOf(m).Adopt(p.held)
	} else if o.Session != "" {
		batchOf(m).Add(o, g.out.Sessions)
	}
	if t.done != nil {
		m.Stored = append(m.Stored, t.noteStored)
	}
	g.stats.samples.Add(uint64(len(p.X) / len(g.cfg.Channels)))
	g.lanes.Append(s.lane, &piece)
}

func (g *Gateway) subjectOf(key string) string { return g.job.pattern.Subject(g.job.fullKey(key)) }

func (g *Gateway) keyOf(subject string) string {
	key, _ := g.job.pattern.Key(subject)
	if g.job.pattern.IsSeveral() {
		key = strings.ReplaceAll(key, ".", "/")
	}
	return key
}
