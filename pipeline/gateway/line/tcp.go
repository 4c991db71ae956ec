package line

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/eusn-stream/eusn-stream/pipeline/gateway"
)

const (
	chunkBytes  = 64 << 10 // of lines that are taken together, and of the longest line
	connections = 4096
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

	mu    sync.Mutex
	conns map[net.Conn]bool
}

// ListenTCP starts to take connections for g.
func ListenTCP(g *gateway.Gateway, addr string, a gateway.Access, log *slog.Logger) (*TCP, error) {
	l, err := a.Listen(addr)
	if err != nil {
		return nil, err
	}
	t := &TCP{g: g, log: log, l: l, conns: map[net.Conn]bool{}}
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
		t.mu.Lock()
		full := len(t.conns) >= connections || t.ctx.Err() != nil
		if !full {
			t.conns[c] = true
		}
		t.mu.Unlock()
		if full {
			t.log.Warn("a connection is refused: there are as many as may be", "connections", connections)
			c.Close()
			continue
		}
		t.all.Go(func() { t.serve(c) })
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
		if t.g.Take(t.ctx, &gateway.Message{Input: gateway.TCP, From: c.RemoteAddr().String(), Lines: true, Payload: lines}) == gateway.ErrStopped || t.ctx.Err() != nil {
			return
		}
	}
}
