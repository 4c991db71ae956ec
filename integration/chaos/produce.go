//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
)

const (
	lanes         = 8 // producers at the same time; each has one unanswered message
	publishWithin = time.Second
)

// producers publish a plan.
type producers struct {
	js   jetstream.JetStream
	door *door // to the gateway; nil: they publish themselves
	plan *plan
	rate float64 // messages per second, all together

	encode sync.Mutex // plan.payload

	hurried atomic.Bool         // no more pauses
	rounds  [lanes]atomic.Int64 // how far each lane is
	back    [lanes]atomic.Int64 // the round a lane is to go back to, plus 1; 0 = none

	mu           sync.Mutex
	acknowledged map[string]map[uint64]bool // by key and number
	counts       inputCounts
}

func newProducers(p *plan) *producers {
	return &producers{plan: p, acknowledged: map[string]map[uint64]bool{}}
}

// run publishes everything and returns when all of it is acknowledged.
func (p *producers) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	begin := time.Now()
	for lane := range lanes {
		wg.Go(func() {
			if err := p.lane(ctx, lane, begin); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// lane publishes every lanes-th key's messages, round by round.
func (p *producers) lane(ctx context.Context, lane int, begin time.Time) error {
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

// mark notes the positions of the lanes. The function that it returns sends them
// back there, like producers that ask the server what it still has.
func (p *producers) mark() (again func()) {
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

// publish publishes one message until the server has acknowledged it. If an
// answer is lost, the message is sent again: with an id, the server drops the
// copy; without one, the stage must do so.
func (p *producers) publish(ctx context.Context, key string, s send, withID bool) error {
	m := p.plan.message(key, s.seq)
	if s.dies {
		if err := p.unheard(m); err != nil {
			return err
		}
		if m.other != nil {
			m = m.other
		}
	}
	msg, err := p.encoded(m)
	if err != nil {
		return err
	}
	if withID && !s.repeat && !s.dies && !p.plan.traffic.Unnumbered {
		msg.Header.Set(jetstream.MsgIDHeader, fmt.Sprintf("%s:%d", key, s.seq))
	}
	for goes := p.sends(m, msg); ; {
		try, cancel := context.WithTimeout(ctx, publishWithin)
		err := goes(try)
		cancel()
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, nats.ErrMaxPayload) {
			return fmt.Errorf("chaos: %s %d, %d bytes: %w", key, s.seq, len(msg.Data), err)
		}
		p.count(func(c *inputCounts) { c.Retries++ })
		time.Sleep(50 * time.Millisecond)
	}
	p.countAcknowledged(key, s, m.damaged)
	return nil
}

// countAcknowledged counts a message that the server has acknowledged.
func (p *producers) countAcknowledged(key string, s send, damaged bool) {
	p.count(func(c *inputCounts) {
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

// sends is how a message goes out: to the server, or to the gateway.
func (p *producers) sends(m *input, msg *nats.Msg) func(context.Context) error {
	if p.door != nil {
		return func(ctx context.Context) error { return p.door.post(ctx, m) }
	}
	return func(ctx context.Context) error { _, err := p.js.PublishMsg(ctx, msg); return err }
}

// unheard sends a message and dies before the answer, so it is not known whether
// the message was stored.
func (p *producers) unheard(m *input) error {
	msg, err := p.encoded(m)
	if err != nil {
		return err
	}
	p.count(func(c *inputCounts) {
		c.Deaths++
		if m.other != nil {
			c.Reused++
		}
	})
	p.js.Conn().PublishMsg(msg) // lost if there is no connection, as for a producer that died
	return nil
}

func (p *producers) count(f func(*inputCounts)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.counts)
}

func (p *producers) encoded(m *input) (*nats.Msg, error) {
	p.encode.Lock()
	defer p.encode.Unlock()
	data, err := p.plan.payload(m)
	if err != nil {
		return nil, err
	}
	msg := nats.NewMsg(subjectPrefix + m.key)
	msg.Data = data
	if p.plan.traffic.Unnumbered {
		msg.Header.Set(headerPlan, strconv.FormatUint(m.seq, 10)) // for the harness alone
	} else {
		msg.Header.Set(headerSeq, strconv.FormatUint(m.seq, 10))
	}
	if m.seq%3 == 0 && !m.damaged {
		msg.Header.Set(headerCRC, fmt.Sprintf("%08x", codec.CRC(data)))
	}
	return msg, nil
}

// findMissing publishes what no producer has sent so far, so that no message
// waits for it without end. has says what the input holds.
func (p *producers) findMissing(ctx context.Context, has func(key string, seq uint64) bool) error {
	for k, key := range p.plan.keys {
		for _, m := range p.plan.messages[key] {
			if has(key, m.seq) {
				continue
			}
			if err := p.publish(ctx, key, send{seq: m.seq, late: true}, k%2 == 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish publishes, for each key, the samples that close all its sequences.
// It adds them to the plan.
func (p *producers) finish(ctx context.Context, t *truth, seed uint64) error {
	for k, key := range p.plan.keys {
		m := t.closing(key, seed)
		p.plan.messages[key] = append(p.plan.messages[key], m)
		if err := p.publish(ctx, key, send{seq: m.seq}, k%2 == 0); err != nil {
			return err
		}
	}
	return nil
}
