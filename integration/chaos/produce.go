//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	lanes         = 8 // concurrent producers; each has one unanswered message
	publishWithin = time.Second
)

// errOver ends the producers of a job that takes no more input.
var errOver = errors.New("chaos: the input is gone and every partition is stopped")

// producers publish a plan.
type producers struct {
	js   jetstream.JetStream
	door *door // to the gateway; nil: producers publish directly
	plan *plan
	rate float64 // messages per second of all producers

	encode sync.Mutex // plan.payload

	// isOver reports that no retry can succeed; nil: retries have no end.
	isOver func(context.Context) bool

	hurried atomic.Bool         // without pauses
	rounds  [lanes]atomic.Int64 // progress of each lane
	back    [lanes]atomic.Int64 // the round to which a lane must return, plus 1; 0 = none

	mu           sync.Mutex
	acknowledged map[string]map[uint64]bool // by key and number
	counts       inputCounts
}

// produceUntil publishes all messages and returns when all are acknowledged.
func (p *producers) produceUntil(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	begin := time.Now()
	for lane := range lanes {
		wg.Go(func() {
			if err := p.runLane(ctx, lane, begin); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// runLane publishes every lanes-th key's messages, round by round.
func (p *producers) runLane(ctx context.Context, lane int, begin time.Time) error {
	done := 0
	for round, more := 0, true; more; round++ {
		more = false
		if to := p.back[lane].Swap(0); to > 0 {
			round = int(to) - 1
		}
		p.rounds[lane].Store(int64(round))
		for k := lane; k < len(p.plan.keys); k += lanes {
			key := p.plan.keys[k]
			sends := p.plan.sends[key]
			if round >= len(sends) {
				continue
			}
			more = true
			if err := p.publish(ctx, key, sends[round], k%2 == 0); err != nil {
				return err
			}
			done++
			if p.hurried.Load() {
				continue
			}
			time.Sleep(time.Until(begin.Add(time.Duration(float64(done*lanes) / p.rate * float64(time.Second)))))
		}
	}
	return nil
}

// markPosition records the positions of the lanes. The returned function resets the lanes
// to these positions, as producers do after a query of the server's last message.
func (p *producers) markPosition() (again func()) {
	var at [lanes]int64
	for i := range p.rounds {
		at[i] = p.rounds[i].Load()
	}
	return func() {
		for i, round := range at {
			p.back[i].Store(round + 1)
		}
	}
}

// publish publishes one message until the server's acknowledgement. If an answer is lost,
// the message is resent: with an id, the server drops the copy; without an id, the stage
// must drop the copy.
func (p *producers) publish(ctx context.Context, key string, s send, withID bool) error {
	m := p.plan.findMessage(key, s.seq)
	if s.dies {
		if err := p.sendUnheard(m); err != nil {
			return err
		}
		if m.reused != nil {
			m = m.reused
		}
	}
	msg, err := p.encodeMessage(m)
	if err != nil {
		return err
	}
	if withID && !s.repeat && !s.dies && !p.plan.traffic.Unnumbered {
		msg.Header.Set(jetstream.MsgIDHeader, fmt.Sprintf("%s:%d", key, s.seq))
	}
	if err := p.publishUntil(ctx, p.sender(m, msg)); err != nil {
		return fmt.Errorf("chaos: %s %d, %d bytes: %w", key, s.seq, len(msg.Data), err)
	}
	p.countAcknowledged(key, s, m.damaged)
	return nil
}

// publishUntil repeats a publication until it is acknowledged.
func (p *producers) publishUntil(ctx context.Context, goes func(context.Context) error) error {
	for since := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		try, cancel := context.WithTimeout(ctx, publishWithin)
		err := goes(try)
		cancel()
		if err == nil || errors.Is(err, nats.ErrMaxPayload) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if p.isOver != nil && time.Since(since) > noProgress {
			if p.isOver(ctx) {
				return errOver
			}
			since = time.Now()
		}
		p.updateCounts(func(c *inputCounts) { c.Retries++ })
	}
}

// countAcknowledged counts an acknowledged message.
func (p *producers) countAcknowledged(key string, s send, damaged bool) {
	p.updateCounts(func(c *inputCounts) {
		if p.acknowledged[key] == nil {
			p.acknowledged[key] = map[uint64]bool{}
		}
		p.acknowledged[key][s.seq] = true
		c.Messages++
		switch {
		case s.repeat:
			c.Repeats++
		case damaged:
			c.Damaged++
		case s.late:
			c.Late++
		}
	})
}

// sender returns the way to send a message: to the server, or to the gateway.
func (p *producers) sender(m *input, msg *nats.Msg) func(context.Context) error {
	if p.door.serves(m.key) {
		return func(ctx context.Context) error { return p.door.postMessage(ctx, m) }
	}
	return func(ctx context.Context) error { _, err := p.js.PublishMsg(ctx, msg); return err }
}

// sendUnheard sends a message and dies before the answer: whether the message was stored
// is unknown.
func (p *producers) sendUnheard(m *input) error {
	msg, err := p.encodeMessage(m)
	if err != nil {
		return err
	}
	p.updateCounts(func(c *inputCounts) {
		c.Deaths++
		if m.reused != nil {
			c.Reused++
		}
	})
	p.js.Conn().PublishMsg(msg) // lost without a connection, as for a dead producer
	return nil
}

func (p *producers) updateCounts(f func(*inputCounts)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.counts)
}

func (p *producers) encodeMessage(m *input) (*nats.Msg, error) {
	p.encode.Lock()
	defer p.encode.Unlock()
	data, err := p.plan.payload(m)
	if err != nil {
		return nil, err
	}
	msg := nats.NewMsg(subjectPrefix + m.key)
	msg.Data = data
	if p.plan.traffic.Unnumbered {
		msg.Header.Set(headerPlan, strconv.FormatUint(m.seq, 10)) // only for the harness
	} else {
		msg.Header.Set(headerSeq, strconv.FormatUint(m.seq, 10))
	}
	if m.seq%3 == 0 && !m.damaged {
		msg.Header.Set(headerCRC, fmt.Sprintf("%08x", crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))))
	}
	return msg, nil
}

// sendMissing publishes all unsent messages, so that no message waits for them without
// end. has reports whether the input holds a message. The messages have no id, as from a
// producer that has restarted: the server remembers the ids of deleted messages for two
// minutes, and would acknowledge without storing.
func (p *producers) sendMissing(ctx context.Context, has func(key string, seq uint64) bool) error {
	for _, key := range p.plan.keys {
		for _, m := range p.plan.messages[key] {
			if has(key, m.seq) {
				continue
			}
			if err := p.publish(ctx, key, send{seq: m.seq, late: true}, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendClosing publishes, for each key, samples to close all its sequences, and adds them
// to the plan.
func (p *producers) sendClosing(ctx context.Context, t *truth, seed uint64) error {
	for k, key := range p.plan.keys {
		m := t.closingRows(key, seed)
		p.plan.messages[key] = append(p.plan.messages[key], m)
		if err := p.publish(ctx, key, send{seq: m.seq}, k%2 == 0); err != nil {
			return err
		}
	}
	return nil
}

// closeSequences reads the input into the truth, publishes missing messages and samples
// that close every sequence, and reads those as well.
func (r *run) closeSequences(ctx context.Context, js jetstream.JetStream) error {
	if r.scenario.May.isLenient() {
		return r.closeMeant(ctx, js)
	}
	for _, then := range []func() error{
		r.allStored,
		func() error { return r.producers.sendMissing(ctx, r.holdsMessage) },
		func() error { return r.producers.sendClosing(ctx, r.truth, r.seed) },
		r.allStored,
	} {
		var err error
		if r.inputRead, err = readOn(ctx, js, inputStream, r.inputRead, false, r.readInput); err == nil {
			err = then()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// closeMeant is closeSequences for runs whose truth is the producers' plan.
func (r *run) closeMeant(ctx context.Context, js jetstream.JetStream) error {
	taken := map[string]int{}
	if err := r.sendAgain(ctx, js); err != nil {
		return err
	}
	if err := r.truth.readMeant(taken); err != nil {
		return err
	}
	if err := r.producers.sendClosing(ctx, r.truth, r.seed); err != nil {
		return err
	}
	return r.truth.readMeant(taken)
}

// sendAgain publishes the messages missing in the input, as a producer that keeps its
// numbers and queries the server.
func (r *run) sendAgain(ctx context.Context, js jetstream.JetStream) error {
	clear(r.stored)
	r.counted = 0 // the input is read from its first message
	if _, err := readOn(ctx, js, inputStream, 0, true, r.readInput); err != nil {
		return err
	}
	if !r.scenario.Loses {
		if err := r.allStored(); err != nil {
			return err
		}
	}
	return r.producers.sendMissing(ctx, r.hasOrHad)
}

// hasOrHad reports whether a message need not be resent: the input has it, or its
// producer has no numbers, cannot query the server, and once got an acknowledgement.
func (r *run) hasOrHad(key string, seq uint64) bool {
	return r.holdsMessage(key, seq) || r.scenario.Traffic.Unnumbered && r.producers.acknowledged[key][seq]
}
