package line

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
)

const (
	firstBytes     = 4 << 10         // initial buffer of a connection
	bufferBytes    = 16 << 10        // maximum buffer of a connection, except for a long line
	maxLine        = 64 << 10        // maximum of a line
	maxLong        = 512             // maximum number of connections in the middle of a line above bufferBytes
	maxConnections = 4096            // maximum; beyond, a new connection replaces an idle one
	idleFirst      = 5 * time.Second // for a connection without a line so far
	idle           = time.Minute
	silence        = 24 * time.Hour // maximum time without a line; a connection with a dead peer ends within minutes
)

// TCP accepts lines from connections until Close.
type TCP struct {
	gateway    *gateway.Gateway
	log        *slog.Logger
	listener   net.Listener
	ctx        context.Context
	stop       context.CancelFunc
	goroutines sync.WaitGroup

	long            atomic.Int64 // connections in the middle of a long line
	limit           int
	idleFirst, idle time.Duration
	mu              sync.Mutex
	conns           map[net.Conn]*activity
}

// activity records when a connection last sent a line.
type activity struct {
	time    time.Time // or the start of the connection
	hasSent bool      // whether the connection has sent a line
}

// MaxConnections returns the maximum number of connections. The listener accepts at least one
// more, to replace an idle connection by a new one. others is as for gateway.Connections.
func MaxConnections(others int) int { return min(maxConnections, gateway.Connections(others)-1) }

// ListenTCP starts to accept connections for g.
func ListenTCP(g *gateway.Gateway, addr string, a gateway.Access, log *slog.Logger) (*TCP, error) {
	limit := MaxConnections(a.Others)
	a.PerAddress, a.Log = limit/4, log
	l, err := a.Listen(addr)
	if err != nil {
		return nil, err
	}
	t := &TCP{gateway: g, log: log, listener: l, limit: limit, idleFirst: idleFirst, idle: idle, conns: map[net.Conn]*activity{}}
	t.ctx, t.stop = context.WithCancel(context.Background())
	t.goroutines.Go(t.acceptConnections)
	return t, nil
}

// Addr returns the address of the listener.
func (t *TCP) Addr() net.Addr { return t.listener.Addr() }

// Close ends all connections.
func (t *TCP) Close() {
	t.stop()
	t.listener.Close()
	t.mu.Lock()
	for c := range t.conns {
		c.Close()
	}
	t.mu.Unlock()
	t.goroutines.Wait()
}

func (t *TCP) acceptConnections() {
	for {
		c, err := t.listener.Accept()
		if err != nil {
			if t.ctx.Err() == nil {
				t.log.Error("the gateway no longer accepts lines over TCP", "err", err)
			}
			return
		}
		if !t.admitConnection(c) {
			t.log.Warn("a connection was refused: the maximum is reached, and no connection is idle", "connections", t.limit)
			c.Close()
			continue
		}
		t.goroutines.Go(func() { t.serveConnection(c) })
	}
}

// admitConnection registers a connection. At the maximum it ends an idle connection: the oldest
// connection without a line, or else the connection idle longest.
func (t *TCP) admitConnection(c net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		return false
	}
	now := time.Now()
	if len(t.conns) >= t.limit {
		var victim net.Conn
		var oldest *activity
		for conn, a := range t.conns {
			limit := t.idleFirst
			if a.hasSent {
				limit = t.idle
			}
			if now.Sub(a.time) >= limit && (oldest == nil || oldest.hasSent && !a.hasSent || oldest.hasSent == a.hasSent && a.time.Before(oldest.time)) {
				victim, oldest = conn, a
			}
		}
		if victim == nil {
			return false
		}
		t.log.Warn("an idle connection was closed: the maximum is reached", "connections", t.limit, "address", victim.RemoteAddr(), "idle", now.Sub(oldest.time).Round(time.Second))
		victim.Close()
		delete(t.conns, victim)
	}
	t.conns[c] = &activity{time: now}
	return true
}

// recordLine records that a connection has sent a line.
func (t *TCP) recordLine(c net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.conns[c]; a != nil {
		a.time, a.hasSent = time.Now(), true
	}
}

// serveConnection forwards the lines of one connection. Under backpressure it does not read, so
// the sender's writes block.
func (t *TCP) serveConnection(c net.Conn) {
	defer func() {
		c.Close()
		t.mu.Lock()
		delete(t.conns, c)
		t.mu.Unlock()
	}()
	r := newReader(c, &t.long)
	defer r.close()
	for first := true; ; first = false {
		c.SetReadDeadline(time.Now().Add(silence))
		lines, err := r.readLines()
		if first && requestLine.Match(lines) {
			t.gateway.Refuse(gateway.TCP, errHTTP)
			return
		}
		if err != nil {
			if t.ctx.Err() == nil && (errors.Is(err, errCut) || errors.Is(err, errLong) || errors.Is(err, errRoom)) {
				t.gateway.Refuse(gateway.TCP, err)
			}
			return
		}
		t.recordLine(c)
		if t.gateway.Take(t.ctx, &gateway.Message{Input: gateway.TCP, From: c.RemoteAddr().String(), Lines: true, Payload: lines}) == gateway.ErrStopped || t.ctx.Err() != nil {
			return
		}
	}
}
