package pipelinetest

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
)

// Cable is a forwarded connection to a local port, for tests with network failures.
type Cable struct {
	to    string
	l     net.Listener
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

// NewCable listens for connections to the port. It ends with the test.
func NewCable(t testing.TB, port int) *Cable {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Cable{to: fmt.Sprintf("127.0.0.1:%d", port), l: l}
	t.Cleanup(func() { l.Close(); c.Set(true) })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			c.join(in)
		}
	}()
	return c
}

// Addr returns the address of the near end.
func (c *Cable) Addr() string { return c.l.Addr().String() }

func (c *Cable) join(in net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out, err := net.Dial("tcp", c.to)
	if err != nil || c.cut {
		in.Close()
		if err == nil {
			out.Close()
		}
		return
	}
	c.conns = append(c.conns, in, out)
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		go func() {
			io.Copy(way[0], way[1])
			way[0].Close()
		}()
	}
}

// Set cuts or restores the cable.
func (c *Cable) Set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		conn.Close()
	}
	c.cut, c.conns = cut, nil
}
