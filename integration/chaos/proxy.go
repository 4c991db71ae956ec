//go:build linux

package main

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// direction is a way through a link.
type direction int

const (
	toServer direction = iota
	toWorker
)

// link connects a worker with the servers: one proxy per server, controlled
// together.
type link struct {
	proxies []*proxy

	mu    sync.Mutex
	gates [2]chan struct{} // by direction; closed = open
	down  bool             // connections are refused
	delay time.Duration    // added to every piece, each way

	late atomic.Int64 // bytes delivered that had waited at a closed gate
	lost atomic.Int64 // connections cut
}

func newLink(c *cluster) (*link, error) {
	l := &link{gates: [2]chan struct{}{make(chan struct{}), make(chan struct{})}}
	l.release()
	for _, n := range c.nodes {
		ln, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
		if err != nil {
			l.close()
			return nil, err
		}
		p := &proxy{link: l, ln: ln, target: n.address(), conns: map[net.Conn]bool{}}
		l.proxies = append(l.proxies, p)
		go p.accept()
	}
	return l, nil
}

// url lists the proxies, in the order of the servers.
func (l *link) url() string {
	s := ""
	for i, p := range l.proxies {
		if i > 0 {
			s += ","
		}
		s += "nats://" + p.ln.Addr().String()
	}
	return s
}

// hold keeps everything that is sent from now on, in both directions. release
// delivers it: a network partition with late delivery.
func (l *link) hold() {
	l.holdOne(toServer)
	l.holdOne(toWorker)
}

// holdOne does so for one direction; the other one still works.
func (l *link) holdOne(d direction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.gates[d]:
		l.gates[d] = make(chan struct{})
	default: // held already
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

// cut breaks all connections and refuses new ones until mend. Data on the way is
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

// connections is how many there are through the link.
func (l *link) connections() (n int) {
	for _, p := range l.proxies {
		p.mu.Lock()
		n += len(p.conns) / 2
		p.mu.Unlock()
	}
	return n
}

// held reports whether a direction's gate is closed.
func (l *link) held(d direction) bool {
	select {
	case <-l.gate(d):
		return false
	default:
		return true
	}
}

// pass waits until a piece may pass the gate.
func (l *link) pass(d direction, p piece) {
	time.Sleep(time.Until(p.due))
	for l.held(d) {
		<-l.gate(d)
	}
}

func (l *link) close() {
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

// breakAll resets every connection, without the goodbye of an orderly close.
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

// piece is what one read returned, and when it may be written.
type piece struct {
	data []byte
	due  time.Time
	held bool // the gate was closed when it came
}

const (
	pieceBytes  = 16 << 10
	piecesOnWay = 1 << 10 // with pieceBytes: what a direction can hold, 16 MiB
)

// pump forwards one direction. It continues to read while the gate is closed, so
// what a process sent before it died is still delivered, late.
func (l *link) pump(d direction, dst, src net.Conn) {
	way := make(chan piece, piecesOnWay)
	broke := false // by breakAll: then there is no goodbye; read after way is closed
	go func() {
		defer close(way)
		for {
			buf := make([]byte, pieceBytes)
			n, err := src.Read(buf)
			if n > 0 {
				_, delay := l.state()
				way <- piece{buf[:n], time.Now().Add(delay), l.held(d)}
			}
			if err != nil {
				broke = errors.Is(err, net.ErrClosed)
				return
			}
		}
	}()
	gone := false
	for p := range way {
		l.pass(d, p)
		if !gone {
			_, err := dst.Write(p.data)
			gone = err != nil // continue to read: the other direction may still have data to deliver
			if p.held && !gone {
				l.late.Add(int64(len(p.data)))
			}
		}
	}
	l.pass(d, piece{}) // a goodbye waits like everything else
	if t, ok := dst.(*net.TCPConn); ok && !broke {
		t.CloseWrite()
	}
}
