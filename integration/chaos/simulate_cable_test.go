//go:build simulation && chaos && linux

package main

import (
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"
)

// cable carries all connections of a participant to the server. Data can be delayed, held
// in one direction or both, and cut, as by door of a TCP proxy (proxy.go).
type cable struct {
	world *world
	name  string

	mu      sync.Mutex
	rng     *rand.Rand
	lag     time.Duration // longest delay of a piece of data
	flows   bool          // pieces in flight are delayed at the same time
	held    [2]time.Time  // data in this direction waits until then
	refused time.Time     // new connections fail until then
	moment  *moment       // at which the participant dies
	ended   bool          // for good: the participant is dead
	wires   []*wire       // open connections, in the order of opening
	late    int64         // bytes delivered after a hold
}

// wire is a connection: client -- near, far -- server.
type wire struct {
	cable     *cable
	near, far net.Conn
	once      sync.Once
}

var errRefused = errors.New("connection refused by the simulated network")

const (
	pieces       = 256      // of data in flight in each direction of a wire
	largestPiece = 16 << 10 // bytes
)

// InProcessConn opens a connection to the current server.
func (c *cable) InProcessConn() (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || time.Now().Before(c.refused) {
		return nil, errRefused
	}
	far, err := c.world.connectServer()
	if err != nil {
		return nil, err
	}
	client, near := net.Pipe()
	w := &wire{cable: c, near: near, far: far}
	c.wires = append(c.wires, w)
	w.carry(toServer, near, far)
	w.carry(toWorker, far, near)
	return client, nil
}

// carry copies data from one end to the other until an end is closed.
func (w *wire) carry(direction direction, from, to net.Conn) {
	type piece struct {
		data []byte
		sent time.Time
	}
	c, queue := w.cable, make(chan piece, pieces)
	c.world.tasks.Go(func() {
		defer close(queue)
		b := make([]byte, largestPiece)
		for {
			n, err := from.Read(b[:1+c.draw(largestPiece)])
			if n > 0 {
				queue <- piece{slices.Clone(b[:n]), time.Now()}
			}
			if err != nil {
				return
			}
		}
	})
	c.world.tasks.Go(func() {
		defer w.close()
		for p := range queue {
			c.awaitRelease(direction, len(p.data), p.sent)
			dies := direction == toServer && c.isMoment(p.data, true)
			if !dies {
				_, err := to.Write(p.data)
				dies = err != nil || direction == toServer && c.isMoment(p.data, false)
			}
			if dies {
				_ = to.Close()
				_ = from.Close()
				for range queue { // until the reader has seen the end
				}
				return
			}
		}
	})
}

// awaitRelease waits for the delay of a piece and for the end of a hold.
func (c *cable) awaitRelease(direction direction, n int, sent time.Time) {
	c.mu.Lock()
	lag := c.lag
	if lag > 0 {
		lag = time.Duration(c.rng.Int64N(int64(lag)))
	}
	if c.flows {
		lag -= time.Since(sent)
	}
	c.mu.Unlock()
	if lag > 0 {
		time.Sleep(lag)
	}
	for {
		c.mu.Lock()
		wait := time.Until(c.held[direction])
		c.mu.Unlock()
		if wait <= 0 {
			return
		}
		time.Sleep(wait)
		c.mu.Lock()
		c.late += int64(n)
		c.mu.Unlock()
	}
}

func (c *cable) draw(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.IntN(n)
}

// close closes both ends: data in flight is lost.
func (w *wire) close() {
	w.once.Do(func() {
		w.near.Close()
		w.far.Close()
		w.cable.mu.Lock()
		w.cable.wires = slices.DeleteFunc(w.cable.wires, func(o *wire) bool { return o == w })
		w.cable.mu.Unlock()
	})
}

// hold stops the data in the directions for d.
func (c *cable) hold(d time.Duration, directions ...direction) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range directions {
		c.held[i] = time.Now().Add(d)
	}
}

// cut closes all connections, and refuses new ones for d.
func (c *cable) cut(d time.Duration) int {
	c.mu.Lock()
	c.refused = time.Now().Add(d)
	all := slices.Clone(c.wires)
	c.mu.Unlock()
	for _, w := range all {
		w.close()
	}
	return len(all)
}

// end cuts the participant off for good.
func (c *cable) end() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.cut(0)
}

func (c *cable) setLag(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lag = d
}
