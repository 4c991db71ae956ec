//go:build linux

package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

const (
	lanes         = 8 // producers side by side; each has one message under way
	publishWithin = time.Second
)

// producers publish a plan.
type producers struct {
	js   jetstream.JetStream
	plan *plan
	rate float64 // messages per second, all together

	encode                      sync.Mutex
	sent, repeats, late, damage atomic.Int64
	retries                     atomic.Int64 // sent again for want of an answer
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
			time.Sleep(time.Until(begin.Add(time.Duration(float64(done*lanes) / p.rate * float64(time.Second)))))
		}
	}
	return nil
}

// publish publishes one message until the server has acknowledged it. With an
// id, the server itself drops what it gets twice for want of an answer; keys
// without leave that to the stage.
func (p *producers) publish(ctx context.Context, key string, s send, withID bool) error {
	m := p.plan.message(key, s.seq)
	msg, err := p.encoded(m)
	if err != nil {
		return err
	}
	if withID && !s.repeat {
		msg.Header.Set(jetstream.MsgIDHeader, fmt.Sprintf("%s:%d", key, s.seq))
	}
	for {
		try, cancel := context.WithTimeout(ctx, publishWithin)
		_, err := p.js.PublishMsg(try, msg)
		cancel()
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p.retries.Add(1)
		time.Sleep(50 * time.Millisecond)
	}
	count := func(c *atomic.Int64, yes bool) {
		if yes {
			c.Add(1)
		}
	}
	count(&p.sent, true)
	count(&p.repeats, s.repeat)
	count(&p.late, s.late && !s.repeat)
	count(&p.damage, m.damaged && !s.repeat)
	return nil
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
	msg.Header.Set(pipeline.HeaderSeq, strconv.FormatUint(m.seq, 10))
	if m.seq%3 == 0 && !m.damaged {
		msg.Header.Set(pipeline.HeaderCRC, fmt.Sprintf("%08x", codec.CRC(data)))
	}
	return msg, nil
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
