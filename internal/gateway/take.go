package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Take accepts a message. Take returns nil for an accepted message: m's Done reports
// the storage. A *Refused is permanent. While the gateway has no room, Take waits,
// until ctx ends: then Take returns ErrHeldBack.
func (g *Gateway) Take(ctx context.Context, m *Message) error {
	t := taken{m: m}
	if m.Session != "" {
		t.sum = xxh3.HashSeed(m.Payload, xxh3.HashString(m.Key))
	}
	parts, err := g.partsOf(m)
	var partial *Partial
	if errors.As(err, &partial) {
		g.Refuse(m.Input, err)
		err = nil
	}
	if err == nil {
		parts, err = g.admitParts(ctx, m, parts)
	}
	if refused := new(Refused); errors.As(err, &refused) && refused.outside && m.Input == Broker { // the gateway reads the other broker, and selects by its keys
		g.told.logFirst("messages of another broker for streams outside input.keys are left out", m.Input.String(), err)
	} else if errors.As(err, &refused) {
		g.Refuse(m.Input, err)
	}
	if err != nil {
		return err
	}
	t.parts = parts
	if partial != nil {
		t.answer = partial
	}
	return g.handMessage(ctx, t)
}

// admitParts learns the last numbers of the parts' streams. If a stream is refused, a
// message without Done loses only the parts of this stream: nobody would resend the
// others.
func (g *Gateway) admitParts(ctx context.Context, m *Message, parts []Part) ([]Part, error) {
	var refusal error
	admitted := parts[:0]
	for _, p := range parts {
		switch err := g.learnNumber(ctx, p.Key, m.From); {
		case err == nil:
			admitted = append(admitted, p)
		case m.Done == nil && errors.As(err, new(*Refused)):
			refusal = err
		default:
			return nil, err
		}
	}
	if refusal != nil && len(admitted) > 0 {
		g.Refuse(m.Input, refusal)
		refusal = nil
	}
	return admitted, refusal
}

// Release records that a device may reuse the ID of a Kept message. Release is ordered
// after the messages accepted before.
func (g *Gateway) Release(ctx context.Context, session string, id uint64) error {
	return g.handMessage(ctx, taken{m: &Message{Session: session, ID: id}, over: true})
}

// handMessage passes ordered work to the loop.
func (g *Gateway) handMessage(ctx context.Context, t taken) error {
	select {
	case g.doors.messages <- t:
		return nil
	default:
	}
	select {
	case g.doors.messages <- t:
		return nil
	case <-g.doors.end:
		return ErrStopped
	case <-ctx.Done():
		return ErrHeldBack
	}
}

// Forget records a device's new session: no message of the old session repeats. Forget
// does not wait while the gateway has no room.
func (g *Gateway) Forget(ctx context.Context, session string) {
	select {
	case g.doors.sessions <- session:
	case <-g.doors.end:
	case <-ctx.Done():
	}
}

// partsOf decodes a message and checks the parts. An empty message (MQTT devices clear
// a retained message this way) has no parts. A single value has a part without samples:
// its value counts only if the loop accepts the message, and once.
func (g *Gateway) partsOf(m *Message) ([]Part, error) {
	if len(m.Payload) == 0 && m.Parts == nil {
		return nil, nil
	}
	parts, err := m.Parts, error(nil)
	switch {
	case parts != nil:
	case g.cfg.Values != nil && !m.Lines && m.Decoder == nil:
		if m.Key, m.addValue, err = g.cfg.Values.ReadValue(m.Key, m.Payload, time.Now()); m.addValue != nil {
			parts = []Part{{}}
		}
	default:
		parts, err = g.decodeMessage(m)
	}
	for i := range parts {
		if err == nil {
			err = g.checkPart(&parts[i], m)
		}
	}
	if err != nil && m.Lines {
		return g.decodeLines(m)
	}
	return parts, err
}

// decoderOf returns the decoder of a message.
func (g *Gateway) decoderOf(m *Message) Decoder {
	switch {
	case m.Decoder != nil:
		return m.Decoder
	case m.Lines:
		return g.cfg.Lines
	}
	return g.cfg.Decoder
}

// decodeMessage reads a payload. An unreadable payload is published unchanged if the
// stream is known and accepted.
func (g *Gateway) decodeMessage(m *Message) ([]Part, error) {
	parts, err := g.decoderOf(m).Decode(m.Payload)
	switch {
	case err == nil:
		return parts, nil
	case m.Lines:
		return nil, err
	case m.Key == "":
		return nil, refusedf("%v", err)
	}
	if err := g.setKey(new(Part), m); err != nil {
		return nil, err
	}
	g.stats.unreadable.Add(1)
	g.told.logComplaint("a payload cannot be decoded: it is published unchanged, and the stage stores a dead letter", m.Input.String(), fmt.Errorf("key %q: %w", m.Key, err))
	return []Part{{raw: m.Payload, why: wire.OneLine(err.Error())}}, nil
}

// decodeLines reads lines separately, and refuses unreadable lines. The answer to the
// device names the refused lines.
func (g *Gateway) decodeLines(m *Message) ([]Part, error) {
	var bad badLines
	refuse := bad.addLine
	if m.Done == nil {
		refuse = func(_ int, err error) { g.Refuse(m.Input, err) }
	}
	all := readLines(g.decoderOf(m), m.Payload, func(p *Part) error { return g.checkPart(p, m) }, refuse)
	if m.Done == nil {
		return all, nil
	}
	all = mergeParts(all, len(g.cfg.Channels))
	for i := range all {
		if err := g.checkPart(&all[i], m); err != nil { // together the parts may be too large
			return nil, err
		}
	}
	return all, bad.linesError(len(all) > 0)
}

// setKey completes the key of a part with the message's, and refuses a key outside the
// job's patterns.
func (g *Gateway) setKey(p *Part, m *Message) error {
	if p.Key != "" && m.Key != "" { // a stream id under a topic's key
		p.Key = m.Key + "/" + p.Key
	}
	p.Key = cmp.Or(p.Key, m.Key)
	if p.Key == "" {
		return refusedf("the message names no stream: it has no topic, and no value at input.stream: send the tag stream_id, or set input.stream, such as to the tag host")
	}
	if err := cmp.Or(CheckKey(p.Key), g.job.pattern.CheckKey(g.job.fullKey(p.Key))); err != nil {
		return refusedf("%v", err)
	}
	if key := g.job.fullKey(p.Key); !g.cfg.Keys.Allow(key) {
		return &Refused{Why: fmt.Sprintf("the key %q is none of input.keys: %s", names.Cut(key, 80), names.Cut(g.cfg.Keys.String(), 200)), outside: !g.cfg.Keys.Allow(g.job.fullKey(p.Key + "/"))}
	}
	return nil
}

// checkPart completes a part and refuses invalid parts.
func (g *Gateway) checkPart(p *Part, m *Message) error {
	if err := g.setKey(p, m); err != nil {
		return err
	}
	ch := len(g.cfg.Channels)
	n := len(p.X) / ch
	if p.End {
		p.X, p.Times, p.Ends = nil, nil, nil
	}
	if p.raw == nil && (len(p.X) != n*ch || len(p.Times) > 0 && len(p.Times) != n || len(p.Ends) > 0 && len(p.Ends) != n) {
		return refusedf("decoder: %d values of %d channels with %d times and %d ends", len(p.X), ch, len(p.Times), len(p.Ends))
	}
	p.alone = p.raw != nil || slices.Contains(p.Times, codec.NoTime) || engine.CheckInputs(p.X, ch) != nil
	if size, most := g.sizeOf(p), g.lanes.MaxBytes; size > most {
		return refusedf("the message has %d bytes for stream %q, and the server takes %d: send fewer samples a message", size, p.Key, most)
	}
	return nil
}

// sizeOf is about how many bytes a part takes in a message to the server.
func (g *Gateway) sizeOf(p *Part) int {
	if p.raw != nil {
		return len(p.raw)
	}
	return g.lanes.MessageBytes(len(p.X) / len(g.cfg.Channels))
}
