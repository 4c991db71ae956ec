//go:build simulation && chaos && linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/gateway/web"
)

// doorway is the gateway of a history, and the network of its devices.
type doorway struct {
	*guest
	rng     *rand.Rand // of lost answers
	open    *life      // the process that takes requests
	gateway *gateway.Gateway
	handler http.Handler
	devices sync.WaitGroup // that send without waiting for each answer

	waiting int    // batches without an answer at the end of the newest process
	lost    int    // answers
	left    int    // processes that began with batches of the previous process
	repeats uint64 // requests recognized as repeats
}

// bodies decodes the payloads of postMessage.
type bodies struct{}

func (bodies) Decode(payload []byte) ([]gateway.Part, error) {
	var body struct {
		X, Y []float32
		Time []int64
		End  []bool
	}
	if err := json.Unmarshal(payload, &body); err != nil {
		return nil, err
	}
	p := gateway.Part{Times: body.Time, Ends: body.End}
	for i := range body.X {
		p.X = append(p.X, body.X[i], body.Y[i])
	}
	return []gateway.Part{p}, nil
}

// addDoor adds devices to the plan, and a gateway.
func (h *history) addDoor(rng *rand.Rand) error {
	d, err := newDoor(h.producers.plan, "gateway", false)
	if err != nil {
		return err
	}
	d.keys = map[string]bool{}
	g := &doorway{rng: rng}
	for k := range 1 + rng.IntN(3) {
		key := fmt.Sprintf("via%03d", k)
		d.keys[key] = true
		sends := h.producers.plan.addDevice(rng, key, 4+rng.IntN(20))
		if rng.IntN(2) == 0 {
			h.producers.plan.sends[key] = sends
		} else {
			h.pipelined = append(h.pipelined, key)
			d.single[key] = true
		}
	}
	g.guest = h.newGuest("gateway", g.serve, func(err error) bool { return errors.Is(err, syscall.ENOSPC) })
	g.disk = watchDisk(g.folder(0))
	g.disk.keeps = true
	g.busy = func() bool { return g.gateway != nil && g.gateway.Stats().Waiting > 0 }
	g.after = func(power bool) {
		if g.busy() {
			g.left++
		}
		if power {
			h.producers.updateCounts(func(*inputCounts) { d.losePower(h.producers.acknowledged) })
		}
	}
	bootID = func() string { return fmt.Sprint("start ", g.boots) }
	d.client.Transport = g
	h.producers.door, h.gateway = d, g
	return nil
}

func (g *doorway) serve(l *life) error {
	nc, err := l.dial()
	if err != nil {
		return nil
	}
	defer nc.Close()
	v, err := gateway.New(nc, gateway.Config{
		Job: job, Channels: channelNames, Decoder: bodies{}, Lines: bodies{}, Dir: l.dir, Reads: func(string) error { return nil }, Log: l.log,
	})
	if err != nil {
		return err
	}
	topics, err := gateway.ParseTopics("sensors/+")
	if err != nil {
		return err
	}
	if g.current() == l {
		g.open, g.gateway, g.handler = l, v, web.NewHandler(v, web.Options{Topics: topics, MaxMessage: 1 << 20, Log: l.log})
	}
	err = v.Run(l.ctx)
	if g.current() == l {
		g.waiting = int(v.Stats().Waiting)
	}
	g.repeats += uint64(v.Stats().Repeats)
	return err
}

// answer is the answer to a request, without a connection whose reads have a deadline.
type answer struct{ *httptest.ResponseRecorder }

func (answer) SetReadDeadline(time.Time) error { return nil }

var errDead = errors.New("the connection to the gateway broke")

// RoundTrip lets a device send a request. An answer may be lost.
func (g *doorway) RoundTrip(q *http.Request) (*http.Response, error) {
	l := g.current()
	if l == nil || g.open != l {
		return nil, errDead
	}
	handler, done := g.handler, make(chan struct{})
	a := answer{httptest.NewRecorder()}
	g.world.tasks.Go(func() {
		defer close(done)
		simSetClock(g.clock)
		handler.ServeHTTP(a, q)
	})
	select {
	case <-done:
	case <-l.dead:
		return nil, errDead
	case <-q.Context().Done():
		return nil, context.Cause(q.Context())
	}
	if g.losesAnswer() {
		return nil, errDead
	}
	return a.Result(), nil
}

func (g *doorway) losesAnswer() bool {
	g.world.mu.Lock()
	defer g.world.mu.Unlock()
	if g.rng.IntN(10) > 0 {
		return false
	}
	g.lost++
	return true
}

// window is the number of messages of a pipelining device without an acknowledgement.
const window = 4

// qosDevice is a device that sends as over MQTT with QoS 1: several messages may be without
// an acknowledgement. After a broken connection, the device resends unacknowledged messages.
type qosDevice struct {
	h            *history
	key          string
	rng          *rand.Rand
	every        time.Duration // pause between two messages
	acknowledged int           // messages
	sent         int           // messages, at least once
}

// startPipelines starts the pipelining devices.
func (h *history) startPipelines() {
	for i, key := range h.pipelined {
		n := len(h.producers.plan.messages[key])
		d := &qosDevice{h: h, key: key, rng: rand.New(rand.NewPCG(h.seed, 1<<39+uint64(i))), every: h.scenario.Load / time.Duration(n+1)}
		h.gateway.devices.Go(func() {
			for d.acknowledged < n && !h.world.isClosing() {
				if err := d.connect(); err != nil {
					h.fail("device %s: %v", key, err)
					return
				}
				time.Sleep(time.Duration(d.rng.IntN(1000)) * time.Millisecond)
			}
		})
	}
}

// connect sends over a connection until the connection breaks.
func (d *qosDevice) connect() error {
	g := d.h.gateway
	l := g.current()
	if l == nil || g.open != l {
		return nil
	}
	v := g.gateway
	all, next := d.h.producers.plan.messages[d.key], d.acknowledged
	acks := make(chan error, len(all))
	for d.acknowledged < len(all) {
		if next < len(all) && next-d.acknowledged < window {
			broken, err := d.send(l, v, all[next], next < d.sent, acks)
			if broken || err != nil {
				return err
			}
			next++
			if next > d.sent {
				d.sent = next
				time.Sleep(time.Duration(d.rng.Int64N(int64(2 * d.every))))
			}
		}
		for wait := next == len(all) || next-d.acknowledged == window; wait || len(acks) > 0; wait = false {
			select {
			case err := <-acks:
				if err != nil {
					return err
				}
			case <-l.dead:
				return nil
			case <-l.done:
				return nil
			}
			if g.losesAnswer() {
				return nil
			}
			d.h.producers.countAcknowledged(d.key, send{seq: all[d.acknowledged].seq}, false)
			d.acknowledged++
		}
	}
	return nil
}

// send hands a message to the gateway, which may have no room for some time.
func (d *qosDevice) send(l *life, v *gateway.Gateway, m *input, repeat bool, acks chan<- error) (broken bool, err error) {
	payload, err := m.postBody()
	if err != nil {
		return false, err
	}
	for {
		ctx, cancel := context.WithTimeout(l.ctx, publishWithin)
		withClock(l.clock, func() {
			err = v.Take(ctx, &gateway.Message{
				Input: gateway.MQTT, Key: m.key, Payload: payload, Session: m.key, ID: m.seq, Repeat: repeat, Done: func(err error) { acks <- err },
			})
		})
		cancel()
		switch {
		case l.ctx.Err() != nil || errors.Is(err, gateway.ErrStopped):
			return true, nil
		case !errors.Is(err, gateway.ErrHeldBack):
			return false, err
		}
	}
}

// awaitDevices waits until all pipelining devices have all acknowledgements.
func (h *history) awaitDevices() {
	if h.gateway != nil {
		h.gateway.devices.Wait()
	}
}

// endDoor ends the gateway, after the answers to all messages.
func (h *history) endDoor() {
	if h.gateway == nil {
		return
	}
	if err := h.gateway.end(); err != nil {
		h.fail("the gateway ended: %v", err)
	}
	if n := h.gateway.waiting; n > 0 {
		h.fail("all devices have an acknowledgement, and %d batches wait in the outbox", n)
	}
}

// addDevice adds a device that sends messages to a gateway, and returns their order.
func (p *plan) addDevice(rng *rand.Rand, key string, messages int) (sends []send) {
	p.keys = append(p.keys, key)
	for range messages {
		sends = append(sends, send{seq: p.addMessage(rng, key, 1).seq})
	}
	return sends
}

// losePower notes that the outbox may have lost its end: messages of the devices without
// an acknowledgement may be doubled, under new numbers.
func (d *door) losePower(acknowledged map[string]map[uint64]bool) {
	l := loss{time.Now(), map[string]int{}}
	for key := range d.keys {
		for acknowledged[key][uint64(l.unanswered[key]+1)] {
			l.unanswered[key]++
		}
	}
	d.losses = append(d.losses, l)
}
