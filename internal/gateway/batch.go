package gateway

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/gateway/internal/outbox"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/trace"
)

// stream is one stream's progress.
type stream struct {
	key     string
	last    outbox.Number // given last
	sure    bool          // last was compared with the input
	lost    uint64        // Message.Lost of the newest message
	farTime bool          // the log has one of its times, which is far from the clock
	open    *batch        // nil: no samples wait
	queue   []*outbox.Batch
	busy    bool      // the first of queue is under way, or in ready or stuck
	again   time.Time // when one that was set aside is tried again
}

// batch is samples of one stream that have no number yet.
type batch struct {
	s      *stream
	b      *outbox.Batch
	rows   int
	x      []float32
	times  []int64
	ends   []bool
	timed  bool
	ending bool
	raw    []byte
	alone  bool // holds one message, which the stage may refuse
	begun  time.Time
	due    bool
	sealed bool
	traces []trace.Context // of the messages in it that are traced
}

// taken is a decoded message on its way into the loop.
type taken struct {
	m      *Message
	sum    uint64
	parts  []Part
	over   bool  // no message: the device may use its ID again
	answer error // for the device, when all parts are stored
}

// newTicket makes the ticket of the message, with the answer for its device.
func (t *taken) newTicket() *ticket {
	k := &ticket{left: 1, answer: t.answer, done: t.m.Done}
	if len(t.parts) == 1 && t.parts[0].why != "" {
		k.answer = &Unreadable{t.parts[0].why}
	}
	return k
}

// joinEarlier has a part that came before be acknowledged with that earlier one; false if it
// is not known.
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
	seen.Batch.Stored = append(seen.Batch.Stored, func() { seen.Told(); t.stored() })
	return true
}

// add puts a message's samples into the batches of their streams.
func (g *Gateway) add(t *taken, now time.Time) {
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
		ticket.left++
		s := g.stream(p.Key)
		if m.Lost > s.lost {
			s.lost, p.Gap = m.Lost, true
		}
		g.compareTimes(s, p, m.Input, now)
		g.put(p, o, ticket, now, &m.Trace)
	}
	if repeated > 0 && repeated == len(t.parts) {
		g.stats.repeats.Add(1)
	} else {
		g.stats.messages[m.Input].Add(1)
	}
	ticket.stored()
}

// compareTimes counts samples whose times are far from the clock, and reports the first of
// each stream.
func (g *Gateway) compareTimes(s *stream, p *Part, in Input, now time.Time) {
	clock := now.UnixNano()
	n, first := wire.CountFarTimes(p.Times, clock)
	g.stats.farTimes.Add(uint64(n))
	if n > 0 && !s.farTime {
		s.farTime = true
		g.told.say("times of samples are before 2000, or more than a day from the clock: compare input.time_unit and the clock of the device; samples that a device has kept may be right", in.String(),
			fmt.Errorf("stream %q has a sample of %s", names.Cut(s.key, 80), wire.DescribeFarTime(first, clock)))
	}
}

// ticket tells a device when all parts of its message are stored.
type ticket struct {
	left   int
	answer error
	done   func(error)
}

func (t *ticket) stored() {
	if t.left--; t.left == 0 && t.done != nil {
		t.done(t.answer)
	}
}

// fits reports whether a part can be added to an open batch.
func (g *Gateway) fits(b *batch, p *Part) bool {
	ch := len(g.cfg.Channels)
	n := len(p.X) / ch
	if p.alone || b.alone || b.timed != (len(p.Times) > 0) && n > 0 {
		return false
	}
	return (b.rows+n)*g.rowBytes()+2048+192*ch <= g.maxBytes
}

// put adds a part to the open batch of its stream.
func (g *Gateway) put(p *Part, o outbox.Origin, t *ticket, now time.Time, from *trace.Context) {
	s := g.stream(p.Key)
	g.makeSure(s)
	if p.Gap {
		g.breakOff(s)
	}
	n := len(p.X) / len(g.cfg.Channels)
	if b := s.open; b != nil && !g.fits(b, p) {
		g.seal(b)
	}
	b := s.open
	if b == nil {
		b = &batch{s: s, b: &outbox.Batch{Unreadable: p.why}, begun: now, raw: p.raw, alone: p.alone, timed: len(p.Times) > 0}
		s.open = b
		g.opened = append(g.opened, b)
	}
	if from.Sampled() && g.cfg.Tracer != nil && len(b.traces) < trace.MostLinks {
		b.traces = append(b.traces, *from)
	}
	b.x = append(b.x, p.X...)
	b.times = append(b.times, p.Times...)
	for i := range n {
		end := len(p.Ends) > 0 && p.Ends[i]
		b.ends = append(b.ends, end)
		b.ending = b.ending || end
	}
	b.rows += n
	g.waiting += g.weight(n, p.raw)
	if o.Session != "" {
		b.b.Add(o, g.out.Sessions)
	}
	if t.done != nil {
		b.b.Stored = append(b.b.Stored, t.stored)
	}
	g.stats.samples.Add(uint64(n))
	if b.rows >= g.cfg.Rows || b.alone {
		g.seal(b)
	}
}

func (g *Gateway) weight(rows int, raw []byte) int { return rows*g.rowBytes() + len(raw) }

// seal numbers a batch and writes it to the outbox. What cannot be written waits
// for that, and is not published before.
func (g *Gateway) seal(b *batch) {
	s := b.s
	payload := b.raw
	if payload == nil {
		i := 0
		in := codec.Batch{Rows: b.rows, X: b.x}
		if b.timed {
			i, in.Times = 1, b.times
		}
		if b.ending {
			i, in.Ends = i|2, b.ends
		}
		var err error
		if payload, err = g.encoders[i].Encode(&in); err != nil {
			panic(fmt.Sprintf("gateway: %v", err)) // lengths are checked in parts
		}
	}
	s.last.Seq++
	b.b.Subject, b.b.Incarnation, b.b.Seq, b.b.Payload = g.subject(s.key), s.last.Incarnation, s.last.Seq, payload
	if g.cfg.Tracer != nil {
		b.b.Span = spanOf(g.cfg.Tracer, g.cfg.Job, b)
	}
	s.queue = append(s.queue, b.b)
	if len(g.unwritten) > 0 || !g.write(b.b) {
		b.b.Payload = bytes.Clone(payload)
		g.unwritten = append(g.unwritten, b.b)
	}
	g.enqueue(s)
	g.waiting -= g.weight(b.rows, b.raw)
	g.stats.batches.Add(1)
	s.open = nil
	*b = batch{sealed: true}
}

// endPayload is the message that ends a sequence, without samples. A batch of
// samples never has these bytes: one without rows has no end marks.
func endPayload(e *codec.InputEncoder) ([]byte, error) {
	b, err := e.Encode(&codec.Batch{Times: []int64{}, Ends: []bool{}})
	return bytes.Clone(b), err
}

// write puts a batch into the outbox. If that fails, the gateway holds back.
func (g *Gateway) write(b *outbox.Batch) bool {
	err := g.out.Put(b)
	if err != nil {
		g.diskFailed(err)
	}
	return err == nil
}

// writeAgain writes what could not be written.
func (g *Gateway) writeAgain() {
	for len(g.unwritten) > 0 && g.write(g.unwritten[0]) {
		b := g.unwritten[0]
		g.unwritten = g.unwritten[1:]
		g.enqueue(g.streams[g.keyOf(b)])
	}
	if len(g.unwritten) == 0 {
		g.diskWorks()
	}
}

func (g *Gateway) subject(key string) string { return g.job.pattern.Subject(g.job.key(key)) }

func (g *Gateway) keyOf(b *outbox.Batch) string {
	key, _ := g.job.pattern.Key(b.Subject)
	if g.job.pattern.Several() {
		key = strings.ReplaceAll(key, ".", "/")
	}
	return key
}

// enqueue lets a stream publish its next message.
func (g *Gateway) enqueue(s *stream) {
	if !s.busy && len(s.queue) > 0 && s.queue[0].Written() {
		s.busy = true
		g.ready = append(g.ready, s)
	}
}
