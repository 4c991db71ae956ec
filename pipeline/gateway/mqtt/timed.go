package mqtt

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	loginWait  = 10 * time.Second // for the first packet of a connection
	writeWait  = 30 * time.Second // for a device that does not read
	packetWait = 30 * time.Second // for the whole of a large packet

	drainTime  = time.Second // after a packet that is too large
	drainBytes = 8 << 20

	smallPacket = 8 << 10  // bytes; a packet up to this size needs no place
	largeBytes  = 64 << 20 // of large packets that are on their way at a time
)

// timed is a listener whose connections do not wait for ever: neither for the first
// packet, nor for the rest of a large one, nor for a device that does not read.
type timed struct {
	net.Listener
	login, write, packet time.Duration
	places               chan struct{} // one for each large packet on its way; nil: any number
	refuse               func(error)   // is told of a connection that is ended; nil: nobody
	most                 int           // bytes of a packet, as the broker counts them; 0: any number
}

func (t timed) Accept() (net.Conn, error) {
	c, err := t.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c.SetReadDeadline(time.Now().Add(t.login))
	return &timedConn{Conn: c, limits: t}, nil
}

// timedConn takes the broker's deadlines, which come from the device's keepalive, for
// reading alone. The broker sets one before it reads a packet. If the gateway holds
// back meanwhile, the deadline passes, and the acknowledgements that are written
// then must not fail for it.
//
// The broker allocates the memory of a packet when it has read the packet's length. So
// a connection follows the lengths: before the login all packets are small, and later a
// large one needs a place, of which there are few, and has a time in which it must be
// complete.
type timedConn struct {
	net.Conn
	limits   timed
	loggedIn atomic.Bool

	// Of the reading goroutine: the packet on its way.
	inHeader bool // its first byte was read, and its length was not
	length   int
	shift    int
	left     int       // bytes that are missing
	end      time.Time // when a large one must be complete

	holds, closed atomic.Bool // a place; the connection

	version5, tooLarge atomic.Bool // of MQTT; a packet
	told               sync.Once
}

var (
	errLength = errors.New("mqtt: malformed length of a packet")
	errLogin  = errors.New("mqtt: the first packet of a connection is too large")
	errPlace  = errors.New("mqtt: too many large packets are on their way")
)

// SetDeadline is that of the next read.
func (c *timedConn) SetDeadline(t time.Time) error {
	if c.left > 0 && c.holds.Load() && (t.IsZero() || t.After(c.end)) {
		t = c.end
	}
	return c.SetReadDeadline(t)
}

func (c *timedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if failed := c.follow(b[:n]); failed != nil {
		return 0, failed
	}
	return n, err
}

// follow goes through the packets in what was read.
func (c *timedConn) follow(b []byte) error {
	for len(b) > 0 {
		if c.left > 0 {
			n := min(c.left, len(b))
			c.left -= n
			b = b[n:]
			if c.left == 0 {
				c.leave()
			}
			continue
		}
		x := b[0]
		b = b[1:]
		if !c.inHeader {
			c.inHeader, c.length, c.shift = true, 0, 0
			continue
		}
		c.length |= int(x&0x7f) << c.shift
		c.shift += 7
		switch {
		case x&0x80 == 0:
			c.inHeader, c.left = false, c.length
			if c.limits.most > 0 && c.length+1 > c.limits.most { // the broker ends the connection
				c.tooLarge.Store(true)
				return nil
			}
			if c.left > smallPacket {
				if err := c.enter(); err != nil {
					return err
				}
			}
		case c.shift > 21:
			return errLength
		}
	}
	return nil
}

// enter waits for the place of a large packet.
func (c *timedConn) enter() error {
	if !c.loggedIn.Load() {
		if c.limits.refuse != nil {
			c.limits.refuse(errLogin)
		}
		return errLogin
	}
	c.end = time.Now().Add(c.limits.packet)
	if c.limits.places == nil {
		return nil
	}
	select {
	case c.limits.places <- struct{}{}:
	case <-time.After(c.limits.packet):
		return errPlace
	}
	c.holds.Store(true)
	if c.closed.Load() {
		c.leave()
		return net.ErrClosed
	}
	c.end = time.Now().Add(c.limits.packet)
	return c.SetReadDeadline(c.end)
}

// leave gives the place of a large packet back.
func (c *timedConn) leave() {
	if c.holds.Swap(false) {
		<-c.limits.places
	}
}

func (c *timedConn) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.limits.write)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// Close tells a device of MQTT 5 that its packet was too large. What the device still
// sends is read for a moment: otherwise the system may end the connection before the
// device has read why.
func (c *timedConn) Close() error {
	c.closed.Store(true)
	c.leave()
	if !c.tooLarge.Load() || !c.version5.Load() {
		return c.Conn.Close()
	}
	c.told.Do(func() {
		c.Write(tooLargePacket(c.limits.most))
		c.SetReadDeadline(time.Now().Add(drainTime))
		go func() {
			defer c.Conn.Close()
			io.CopyN(io.Discard, c.Conn, drainBytes)
		}()
	})
	return nil
}

// tooLargePacket is a DISCONNECT of MQTT 5 with the reason 0x95, packet too large.
func tooLargePacket(most int) []byte {
	const disconnect, packetTooLarge, reasonString = 0xe0, 0x95, 0x1f
	why := fmt.Sprintf("a packet may have %d bytes: send fewer samples a message", most)
	return append([]byte{disconnect, byte(5 + len(why)), packetTooLarge, byte(3 + len(why)), reasonString, 0, byte(len(why))}, why...)
}
