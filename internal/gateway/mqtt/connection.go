package mqtt

import (
	"context"
	"sync"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

// connection is one to another broker: its acknowledgements, and which of them the
// broker has surely read. Until it has, it sends the message again after a restart,
// and of the newest messages alone the gateway knows that it has them. mosquitto 2.0
// reads one packet of each device between two of ours, and does not limit what it
// sends: of 200 busy devices, 57,000 messages were under way.
//
// So the gateway asks now and then, with a packet that has an answer and no effect
// (UNSUBSCRIBE), and takes no more while the answer lacks too many.
type connection struct {
	acks *acks
	over chan struct{} // closed at its end
	ask  func() paho.Token
	up   func() bool // the connection is there

	mu    sync.Mutex
	taken int // messages
	sent  int // acknowledgements
	sure  int // of them, those that the broker has read
	more  chan struct{}
}

func newConnection(ask func() paho.Token, up func() bool) *connection {
	return &connection{acks: newAcks(nil), over: make(chan struct{}), ask: ask, up: up, more: make(chan struct{}, 1)}
}

// wait returns when a message may be taken; false: the connection has ended.
func (c *connection) wait(ctx context.Context) bool {
	for {
		c.mu.Lock()
		free := c.taken-c.sure < unsure
		if free {
			c.taken++
		}
		c.mu.Unlock()
		select {
		case <-c.over:
			return false
		default:
		}
		if free {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-c.over:
			return false
		case <-c.more:
		case <-time.After(upEvery):
			if !c.up() {
				return false
			}
		}
	}
}

// add takes the place of a message's acknowledgement in their order. What it returns
// lets it go out, and does not block.
func (c *connection) add(send func() error) (acked func()) {
	return c.acks.add(func() error {
		if err := send(); err != nil {
			return err
		}
		c.mu.Lock()
		c.sent++
		n := c.sent
		c.mu.Unlock()
		if n%askEvery == 0 {
			go c.surely(n, c.ask())
		}
		return nil
	}).done
}

// surely waits for the answer that comes after the broker has read n
// acknowledgements.
func (c *connection) surely(n int, answer paho.Token) {
	select {
	case <-answer.Done():
	case <-c.over:
		return
	}
	if answer.Error() != nil {
		return // the connection is lost
	}
	c.mu.Lock()
	c.sure = max(c.sure, n)
	c.mu.Unlock()
	signal(c.more)
}

// close is called once.
func (c *connection) close() {
	c.acks.close()
	close(c.over)
}
