package mqtt

import (
	"context"
	"testing"

	paho "github.com/eclipse/paho.mqtt.golang"
)

// The client accepts at most the number of messages that the gateway remembers, until the
// broker confirms reading their acknowledgements.
func TestUnsureMessagesAreBounded(t *testing.T) {
	probes := make(chan bool, maxUnconfirmed)
	answer := make(chan struct{})
	c := newConnection(func() paho.Token { probes <- true; return &pendingToken{answer: answer} }, func() bool { return true })
	ctx, cancel := context.WithCancel(t.Context())
	accepted := 0
	free := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.accepted-c.confirmed < maxUnconfirmed
	}
	for free() {
		if !c.waitForRoom(ctx) {
			t.Fatal("the connection is there")
		}
		accepted++
		c.addAck(func() error { return nil })()
	}
	if accepted != maxUnconfirmed {
		t.Errorf("%d messages taken, want %d", accepted, maxUnconfirmed)
	}
	for range maxUnconfirmed / probeEvery {
		<-probes
	}
	next := make(chan bool)
	go func() { next <- c.waitForRoom(ctx) }()
	close(answer) // the broker has read all acknowledgements
	if !<-next {
		t.Error("nothing more is taken")
	}
	cancel()
	c.close()
	if c.waitForRoom(t.Context()) {
		t.Error("a message of a connection that has ended is taken: it comes again")
	}
}

// pendingToken is a token that completes when the channel is closed.
type pendingToken struct {
	paho.DummyToken
	answer chan struct{}
}

func (w *pendingToken) Done() <-chan struct{} { return w.answer }
