//go:build linux

package main

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// direction is a direction of a link.
type direction int

const (
	toServer direction = iota
	toWorker
)

// link connects a worker with the servers: one proxy per server, with common control.
type link struct {
	proxies []*proxy

	mu    sync.Mutex
	gates [2]chan struct{} // by direction; closed = open
	down  bool             // connections are refused
	delay time.Duration    // added to all data, each way

	late atomic.Int64 // bytes delivered after waiting at a closed gate
	lost atomic.Int64 // cut connections
}

func newLink(c *cluster) (*link, error) {
	l := &link{gates: [2]chan struct{}{make(chan struct{}), make(chan struct{})}}
	l.release()
	for _, n := range c.nodes {
		ln, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
		if err != nil {
			l.closeLink()
			return nil, err
		}
		p := &proxy{link: l, ln: ln, target: n.address(), conns: map[net.Conn]bool{}}
		l.proxies = append(l.proxies, p)
		go p.accept()
	}
	return l, nil
}

// urls lists the proxies, in the order of the servers.
func (l *link) urls() string {
	s := ""
	for i, p := range l.proxies {
		if i > 0 {
			s += ","
		}
		s += "nats://" + p.ln.Addr().String()
	}
	return s
}

// hold holds all further data in both directions, and release delivers it: a network
// partition with late delivery.
func (l *link) hold() {
	l.holdOne(toServer)
	l.holdOne(toWorker)
}

// holdOne is hold for one direction; the opposite direction still works.
func (l *link) holdOne(d direction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.gates[d]:
		l.gates[d] = make(chan struct{})
	default: // already held
	}
}

func (l *link) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, gate := range l.gates {
		select {
		case <-gate:
		default:
			close(gate)
		}
	}
}

// cut breaks all connections and refuses new connections until mend. Data in flight is
// lost.
func (l *link) cut() {
	l.mu.Lock()
	l.down = true
	l.mu.Unlock()
	for _, p := range l.proxies {
		l.lost.Add(p.breakAll())
	}
}

func (l *link) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}

func (l *link) slow(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
}

func (l *link) state() (down bool, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down, l.delay
}

func (l *link) gate(d direction) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gates[d]
}

// countConnections returns the number of connections through the link.
func (l *link) countConnections() (n int) {
	for _, p := range l.proxies {
		p.mu.Lock()
		n += len(p.conns) / 2
		p.mu.Unlock()
	}
	return n
}

// isHeld reports whether a direction's gate is closed.
func (l *link) isHeld(d direction) bool {
	select {
	case <-l.gate(d):
		return false
	default:
		return true
	}
}

// passGate waits until a piece may pass the gate.
func (l *link) passGate(d direction, p piece) {
	time.Sleep(time.Until(p.due))
	for l.isHeld(d) {
		<-l.gate(d)
	}
}

func (l *link) closeLink() {
	l.release()
	for _, p := range l.proxies {
		p.ln.Close()
		p.breakAll()
	}
}

// proxy forwards TCP connections to one server.
type proxy struct {
	link   *link
	ln     net.Listener
	target string

	mu    sync.Mutex
	conns map[net.Conn]bool
}

func (p *proxy) accept() {
	for {
		client, err := p.ln.Accept()
		if err != nil {
			return
		}
		if down, _ := p.link.state(); down {
			client.Close()
			continue
		}
		go p.serve(client)
	}
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	p.track(client, server)
	defer p.untrack(client, server)
	var both sync.WaitGroup
	both.Go(func() { p.link.pump(toServer, server, client) })
	both.Go(func() { p.link.pump(toWorker, client, server) })
	both.Wait()
}

func (p *proxy) track(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = true
	}
}

func (p *proxy) untrack(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
	}
}

// breakAll resets every connection, without a clean close.
func (p *proxy) breakAll() (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if t, ok := c.(*net.TCPConn); ok {
			t.SetLinger(0)
		}
		c.Close()
		n++
	}
	return n / 2
}

// piece is the result of one read, and the time of its write.
type piece struct {
	data    []byte
	due     time.Time
	wasHeld bool // the gate was closed on arrival
}

const (
	pieceBytes  = 16 << 10
	piecesOnWay = 1 << 10 // with pieceBytes: the capacity of a direction, 16 MiB
)

// pump forwards one direction. It continues to read while the gate is closed, so the data
// of a dead process is still delivered, late.
func (l *link) pump(d direction, dst, src net.Conn) {
	way := make(chan piece, piecesOnWay)
	broke := false // by breakAll: then without a clean close; read after way is closed
	go func() {
		defer close(way)
		for {
			buf := make([]byte, pieceBytes)
			n, err := src.Read(buf)
			if n > 0 {
				_, delay := l.state()
				way <- piece{buf[:n], time.Now().Add(delay), l.isHeld(d)}
			}
			if err != nil {
				broke = errors.Is(err, net.ErrClosed)
				return
			}
		}
	}()
	gone := false
	for p := range way {
		l.passGate(d, p)
		if !gone {
			_, err := dst.Write(p.data)
			gone = err != nil // continue to read: the opposite direction may still have data to deliver
			if p.wasHeld && !gone {
				l.late.Add(int64(len(p.data)))
			}
		}
	}
	l.passGate(d, piece{}) // a close waits like data
	if t, ok := dst.(*net.TCPConn); ok && !broke {
		t.CloseWrite()
	}
}
