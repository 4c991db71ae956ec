package mqtt

import "sync"

// acks are the acknowledgements of one connection. They go out in the order of
// the messages, as MQTT wants it (4.6), each when its message is stored.
type acks struct {
	mu     sync.Mutex
	wait   []*ack
	wake   chan struct{}
	closed bool
	failed func(error) // an acknowledgement cannot be written
}

// ack is that of one message.
type ack struct {
	of    *acks
	send  func() error
	ready bool
}

// newAcks starts a goroutine that writes acknowledgements until close: the
// gateway's own must not wait for a device that reads slowly. failed ends the
// connection if one cannot be written: the device then sends the message again.
func newAcks(failed func(error)) *acks {
	a := &acks{wake: make(chan struct{}, 1), failed: failed}
	go a.run()
	return a
}

// add takes the place of a message in the order. send writes its
// acknowledgement.
func (a *acks) add(send func() error) *ack {
	k := &ack{of: a, send: send}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wait = append(a.wait, k)
	return k
}

// done lets the acknowledgement go out. It does not block.
func (k *ack) done() {
	k.of.mu.Lock()
	k.ready = true
	k.of.mu.Unlock()
	k.of.signal()
}

func (a *acks) signal() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// close ends the goroutine. What has not gone out does not: the device sends the
// message again.
func (a *acks) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.signal()
}

func (a *acks) run() {
	for range a.wake {
		for {
			k, closed := a.next()
			if closed {
				return
			}
			if k == nil {
				break
			}
			if err := k.send(); err != nil {
				a.failed(err)
				return
			}
		}
	}
}

func (a *acks) next() (k *ack, closed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || len(a.wait) == 0 || !a.wait[0].ready {
		return nil, a.closed
	}
	k = a.wait[0]
	a.wait = a.wait[1:]
	return k, false
}
