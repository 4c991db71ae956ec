package mqtt

import (
	"net"
	"time"
)

const (
	loginWait = 10 * time.Second // for the first packet of a connection
	writeWait = 30 * time.Second // for a device that does not read
)

// timed is a listener whose connections do not wait for ever: neither for the first
// packet nor for a device that does not read.
type timed struct {
	net.Listener
	login, write time.Duration
}

func (t timed) Accept() (net.Conn, error) {
	c, err := t.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c.SetReadDeadline(time.Now().Add(t.login))
	return &timedConn{c, t.write}, nil
}

// timedConn takes the broker's deadlines, which come from the device's keepalive, for
// reading alone. The broker sets one before it reads a packet. If the gateway holds
// back meanwhile, the deadline passes, and the acknowledgements that are written
// then must not fail for it.
type timedConn struct {
	net.Conn
	wait time.Duration // for a write
}

// SetDeadline is that of the next read.
func (c *timedConn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

func (c *timedConn) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.wait)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}
