package mqtt

import (
	"context"
	"sync"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
)

// connection is a connection to another broker. It counts the sent acknowledgements, and the
// acknowledgements that the broker has certainly read. The broker resends a message after a
// restart until it has read the acknowledgement, but the gateway remembers only the newest
// messages. mosquitto 2.0 reads one packet from each device between two packets from the
// gateway, and does not limit the messages it sends: with 200 busy devices, 57,000 messages
// were unacknowledged.
//
// So the connection regularly sends a probe, a packet with an answer and no effect
// (UNSUBSCRIBE), and accepts no messages while too many acknowledgements are unconfirmed.
type connection struct {
	acks   *ackQueue
	closed chan struct{} // closed when the connection ends
	probe  func() paho.Token
	isUp   func() bool // reports whether the connection is up

	mu           sync.Mutex
	accepted     int // accepted messages
	acknowledged int // sent acknowledgements
	confirmed    int // acknowledgements that the broker has read
	progress     chan struct{}
}

func newConnection(probe func() paho.Token, isUp func() bool) *connection {
	return &connection{acks: newAcks(nil), closed: make(chan struct{}), probe: probe, isUp: isUp, progress: make(chan struct{}, 1)}
}

// waitForRoom returns true when the client may accept a message, false when the connection has
// ended.
func (c *connection) waitForRoom(ctx context.Context) bool {
	for {
		c.mu.Lock()
		free := c.accepted-c.confirmed < maxUnconfirmed
		if free {
			c.accepted++
		}
		c.mu.Unlock()
		select {
		case <-c.closed:
			return false
		default:
		}
		if free {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-c.closed:
			return false
		case <-c.progress:
		case <-time.After(checkEvery):
			if !c.isUp() {
				return false
			}
		}
	}
}

// addAck reserves the next place in the order of the acknowledgements. The returned function
// permits the sending, without blocking.
func (c *connection) addAck(send func() error) (acked func()) {
	return c.acks.enqueue(func() error {
		if err := send(); err != nil {
			return err
		}
		c.mu.Lock()
		c.acknowledged++
		n := c.acknowledged
		c.mu.Unlock()
		if n%probeEvery == 0 {
			go c.confirmAcks(n, c.probe())
		}
		return nil
	}).release
}

// confirmAcks waits for the answer to a probe: the broker has then read n acknowledgements.
func (c *connection) confirmAcks(n int, answer paho.Token) {
	select {
	case <-answer.Done():
	case <-c.closed:
		return
	}
	if answer.Error() != nil {
		return // the connection is lost
	}
	c.mu.Lock()
	c.confirmed = max(c.confirmed, n)
	c.mu.Unlock()
	wakeUp(c.progress)
}

// close must be called once.
func (c *connection) close() {
	c.acks.close()
	close(c.closed)
}
