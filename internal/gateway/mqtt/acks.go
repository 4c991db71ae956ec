package mqtt

import "sync"

// ackQueue has the acknowledgements of one connection. The queue sends them in the order of the
// messages (MQTT 4.6), each when its message is stored.
type ackQueue struct {
	mu      sync.Mutex
	pending []*ack
	wake    chan struct{}
	closed  bool
	failed  func(error) // gets the error if an acknowledgement cannot be written
}

// ack is the acknowledgement of one message.
type ack struct {
	queue *ackQueue
	send  func() error
	ready bool
}

// newAcks starts a goroutine that writes acknowledgements until close. The gateway's own
// goroutine must not wait for a device that reads slowly. The function failed ends the
// connection after a write error: the device then resends the message.
func newAcks(failed func(error)) *ackQueue {
	a := &ackQueue{wake: make(chan struct{}, 1), failed: failed}
	go a.sendAcks()
	return a
}

// enqueue reserves the next place in the order for a message. The function send writes the
// message's acknowledgement.
func (a *ackQueue) enqueue(send func() error) *ack {
	k := &ack{queue: a, send: send}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pending = append(a.pending, k)
	return k
}

// release permits the sending of the acknowledgement. It does not block.
func (k *ack) release() {
	k.queue.mu.Lock()
	k.ready = true
	k.queue.mu.Unlock()
	k.queue.wakeUp()
}

func (a *ackQueue) wakeUp() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// close ends the goroutine without the unsent acknowledgements: the devices resend these
// messages.
func (a *ackQueue) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.wakeUp()
}

func (a *ackQueue) sendAcks() {
	for range a.wake {
		for {
			k, closed := a.nextReady()
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

func (a *ackQueue) nextReady() (k *ack, closed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || len(a.pending) == 0 || !a.pending[0].ready {
		return nil, a.closed
	}
	k = a.pending[0]
	a.pending = a.pending[1:]
	return k, false
}
