package line

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
)

const (
	firstBytes  = 4 << 10         // of a connection's buffer, until more comes at once
	chunkBytes  = 64 << 10        // of lines that are taken together, and of the longest line
	connections = 4096            // at most; beyond, one that is idle gives its place
	idleFirst   = 5 * time.Second // for a connection that has sent no line
	idle        = time.Minute
	silence     = 24 * time.Hour // after which a connection is ended; one whose other side is gone ends within minutes
)

// TCP takes lines from connections until Close.
type TCP struct {
	g    *gateway.Gateway
	log  *slog.Logger
	l    net.Listener
	ctx  context.Context
	stop context.CancelFunc
	all  sync.WaitGroup

	most            int
	idleFirst, idle time.Duration
	mu              sync.Mutex
	conns           map[net.Conn]*activity
}

// activity is when a connection last sent a line.
type activity struct {
	at   time.Time // or when it began
	sent bool      // it has sent one
}

// Connections is how many there are at a time: fewer than the listener accepts, which
// makes room for a new one by ending one that is idle.
func Connections() int { return min(connections, gateway.Connections()-1) }

// ListenTCP starts to take connections for g.
func ListenTCP(g *gateway.Gateway, addr string, a gateway.Access, log *slog.Logger) (*TCP, error) {
	most := Connections()
	a.PerAddress, a.Log = most/4, log
	l, err := a.Listen(addr)
	if err != nil {
		return nil, err
	}
	t := &TCP{g: g, log: log, l: l, most: most, idleFirst: idleFirst, idle: idle, conns: map[net.Conn]*activity{}}
	t.ctx, t.stop = context.WithCancel(context.Background())
	t.all.Go(t.accept)
	return t, nil
}

// Addr is where it listens.
func (t *TCP) Addr() net.Addr { return t.l.Addr() }

// Close ends all connections.
func (t *TCP) Close() {
	t.stop()
	t.l.Close()
	t.mu.Lock()
	for c := range t.conns {
		c.Close()
	}
	t.mu.Unlock()
	t.all.Wait()
}

func (t *TCP) accept() {
	for {
		c, err := t.l.Accept()
		if err != nil {
			if t.ctx.Err() == nil {
				t.log.Error("lines are no longer taken over TCP", "err", err)
			}
			return
		}
		if !t.admit(c) {
			t.log.Warn("a connection is refused: there are as many as may be, and none is idle", "connections", t.most)
			c.Close()
			continue
		}
		t.all.Go(func() { t.serve(c) })
	}
}

// admit notes a connection. If there are as many as may be, one that is idle ends: of
// those that have sent no line the oldest, or else the one silent longest.
func (t *TCP) admit(c net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		return false
	}
	now := time.Now()
	if len(t.conns) >= t.most {
		var victim net.Conn
		var of *activity
		for other, a := range t.conns {
			limit := t.idleFirst
			if a.sent {
				limit = t.idle
			}
			if now.Sub(a.at) >= limit && (of == nil || of.sent && !a.sent || of.sent == a.sent && a.at.Before(of.at)) {
				victim, of = other, a
			}
		}
		if victim == nil {
			return false
		}
		t.log.Warn("an idle connection is ended: there are as many as may be", "connections", t.most, "address", victim.RemoteAddr(), "idle", now.Sub(of.at).Round(time.Second))
		victim.Close()
		delete(t.conns, victim)
	}
	t.conns[c] = &activity{at: now}
	return true
}

// heard notes that a connection has sent a line.
func (t *TCP) heard(c net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.conns[c]; a != nil {
		a.at, a.sent = time.Now(), true
	}
}

// serve takes the lines of one connection. While the gateway holds back, it does
// not read, so the sender's writes wait.
func (t *TCP) serve(c net.Conn) {
	defer func() {
		c.Close()
		t.mu.Lock()
		delete(t.conns, c)
		t.mu.Unlock()
	}()
	r := newReader(c)
	for first := true; ; first = false {
		c.SetReadDeadline(time.Now().Add(silence))
		lines, err := r.next()
		if first && isRequest(lines) {
			t.g.Refuse(gateway.TCP, errHTTP)
			return
		}
		if err != nil {
			if t.ctx.Err() == nil && (errors.Is(err, errCut) || errors.Is(err, errLong)) {
				t.g.Refuse(gateway.TCP, err)
			}
			return
		}
		t.heard(c)
		if t.g.Take(t.ctx, &gateway.Message{Input: gateway.TCP, From: c.RemoteAddr().String(), Lines: true, Payload: lines}) == gateway.ErrStopped || t.ctx.Err() != nil {
			return
		}
	}
}
