package owner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
)

// Of consumers.
const (
	heartbeat     = time.Second
	forgetAfter   = 30 * time.Second // the server deletes a consumer without a client after this time
	deleteTimeout = time.Second

	// silentBeats is how many heartbeat intervals without any message from a pushed
	// consumer mean that it is lost.
	silentBeats = 3
)

var (
	errNoFlow = errors.New("the server does not hear that messages were taken: the login needs the right to publish to $JS.FC of the input (docs/nats.md)")
	errSilent = errors.New("the server sends nothing, no heartbeat either")
	errBehind = errors.New("messages were lost on the way")
)

// pushed is a consumer whose messages the server sends by itself, with less work than
// answering pulls (docs/results.md). Flow control bounds what is under way: the server
// continues when the client acknowledges the previous messages. A pushed consumer is
// never recreated: the first fault ends the consumer.
type pushed struct {
	took   func(*nats.Msg)
	failed func(error) // once, from any goroutine
	fault  sync.Once

	js           jetstream.JetStream
	stream, name string
	sub          *nats.Subscription
	count        atomic.Uint64 // messages received, which the server counts, too
	heard        atomic.Uint64 // all messages received, including control messages
	stalled      string        // the flow control message that the server waits for, from the last heartbeat
	ended        context.CancelFunc
}

// startPush makes a consumer of a NATS stream from message start on. took receives the
// messages in order, and failed the fault that ends the consumer; later messages must
// not be used.
func startPush(ctx context.Context, js jetstream.JetStream, stream string, start uint64, took func(*nats.Msg), failed func(error)) (*pushed, error) {
	p := &pushed{took: took, failed: failed, js: js, stream: stream, name: rand.Text()}
	nc := js.Conn()
	if err := store.MayPublish(ctx, nc, "$JS.FC."+stream+"."+p.name+".right"); errors.Is(err, nats.ErrPermissionViolation) {
		return nil, errNoFlow
	} else if err != nil {
		return nil, err
	}
	inbox := nc.NewInbox()
	var err error
	if p.sub, err = nc.Subscribe(inbox, p.acceptMessage); err != nil {
		return nil, err
	}
	watching, ended := context.WithCancel(context.Background())
	p.ended = ended
	if err = p.sub.SetPendingLimits(-1, -1); err == nil { // limited by flow control
		_, err = js.CreateOrUpdatePushConsumer(ctx, stream, jetstream.ConsumerConfig{
			Name: p.name, DeliverSubject: inbox, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: start,
			AckPolicy: jetstream.AckNonePolicy, MaxDeliver: 1, MemoryStorage: true, Replicas: 1,
			FlowControl: true, IdleHeartbeat: heartbeat, InactiveThreshold: forgetAfter,
		})
	}
	if err != nil {
		ended()
		return nil, errors.Join(err, p.sub.Unsubscribe())
	}
	go p.watchHeartbeats(watching)
	return p, nil
}

func (p *pushed) failPush(err error) { p.fault.Do(func() { p.failed(err) }) }

// acceptMessage processes the server's messages in order.
func (p *pushed) acceptMessage(m *nats.Msg) {
	p.heard.Add(1)
	if len(m.Data) > 0 || m.Header.Get("Status") == "" {
		p.count.Add(1)
		p.stalled = ""
		p.took(m)
		return
	}
	switch {
	case m.Header.Get("Status") != "100":
		p.failPush(fmt.Errorf("the server ends the consumer: %s", m.Header.Get("Description")))
	case m.Reply != "": // earlier messages are confirmed
		if err := m.Respond(nil); err != nil {
			p.failPush(err)
		}
	default:
		p.acceptHeartbeat(m.Header)
	}
}

// acceptHeartbeat compares a heartbeat with the received messages.
func (p *pushed) acceptHeartbeat(h nats.Header) {
	if last, err := strconv.ParseUint(h.Get("Nats-Last-Consumer"), 10, 64); err != nil || last != p.count.Load() {
		p.failPush(errBehind)
		return
	}
	waits := h.Get("Nats-Consumer-Stalled")
	if waits != "" && waits == p.stalled {
		p.failPush(errNoFlow)
		return
	}
	if p.stalled = waits; waits != "" {
		if err := p.js.Conn().Publish(waits, nil); err != nil {
			p.failPush(err)
		}
	}
}

// watchHeartbeats checks that messages arrive. Messages that wait for a callback are
// not silence.
func (p *pushed) watchHeartbeats(ctx context.Context) {
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for last, silent := uint64(0), 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		waiting, _, err := p.sub.Pending()
		switch now := p.heard.Load(); {
		case now != last || err == nil && waiting > 0:
			last, silent = now, 0
		default:
			if silent++; silent >= silentBeats {
				p.failPush(errSilent)
				return
			}
		}
	}
}

// countBehind is how many messages have come and are not taken.
func (p *pushed) countBehind() int64 {
	n, _, err := p.sub.Pending()
	if err != nil { // the connection is closed
		return 0
	}
	return int64(n)
}

// stopPush ends the consumer without waiting for its callback.
func (p *pushed) stopPush() {
	p.ended()
	_ = p.sub.Unsubscribe() // fails if the connection is closed
	ctx, cancel := context.WithTimeout(context.Background(), deleteTimeout)
	defer cancel()
	_ = p.js.DeleteConsumer(ctx, p.stream, p.name) // otherwise the server deletes the consumer later
}
