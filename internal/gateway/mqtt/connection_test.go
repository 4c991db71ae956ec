package mqtt

import (
	"context"
	"testing"

	paho "github.com/eclipse/paho.mqtt.golang"
)

// No more messages are taken than the gateway remembers while the broker does not
// say that it has read their acknowledgements.
func TestUnsureMessagesAreBounded(t *testing.T) {
	asked := make(chan bool, unsure)
	answer := make(chan struct{})
	c := newConnection(func() paho.Token { asked <- true; return &waiting{answer: answer} }, func() bool { return true })
	ctx, cancel := context.WithCancel(t.Context())
	taken := 0
	free := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.taken-c.sure < unsure
	}
	for free() {
		if !c.wait(ctx) {
			t.Fatal("the connection is there")
		}
		taken++
		c.add(func() error { return nil })()
	}
	if taken != unsure {
		t.Errorf("%d messages taken, want %d", taken, unsure)
	}
	for range unsure / askEvery {
		<-asked
	}
	next := make(chan bool)
	go func() { next <- c.wait(ctx) }()
	close(answer) // the broker has read all
	if !<-next {
		t.Error("nothing more is taken")
	}
	cancel()
	c.close()
	if c.wait(t.Context()) {
		t.Error("a message of a connection that has ended is taken: it comes again")
	}
}

// waiting is a token that has its answer when the channel is closed.
type waiting struct {
	paho.DummyToken
	answer chan struct{}
}

func (w *waiting) Done() <-chan struct{} { return w.answer }
