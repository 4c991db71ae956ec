package mqtt

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/listen"
)

const (
	loginWait = 10 * time.Second // for the first packet of a connection
	writeWait = 30 * time.Second // for a device that does not read

	drainTime  = time.Second // after a packet that is too large
	drainBytes = 8 << 20

	smallPacket = 8 << 10  // bytes; a packet up to this size needs no place
	largeBytes  = 64 << 20 // of large packets that are on their way at a time
)

// timed is a listener whose connections do not wait for ever: neither for the first
// packet, nor for the rest of a large one, nor for a device that does not read.
type timed struct {
	net.Listener
	login, write time.Duration
	pace         listen.Pace    // of a large packet
	places       *listen.Places // for large packets on their way
	refuse       func(error)    // is told of a connection that is ended; nil: nobody
	most         int            // bytes of a packet, as the broker counts them; 0: any number
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
// large one needs a place, of which there are few, and must keep a pace.
type timedConn struct {
	net.Conn
	limits   timed
	loggedIn atomic.Bool

	// Of the reading goroutine: the packet on its way.
	inHeader bool // its first byte was read, and its length was not
	length   int
	shift    int
	left     int // bytes that are missing
	coming   listen.Coming
	until    time.Time // deadline of a large one

	holds, closed atomic.Bool // a place; the connection

	version5, tooLarge atomic.Bool // of MQTT; a packet
	told               sync.Once
}

var (
	errLength = errors.New("mqtt: malformed length of a packet")
	errLogin  = errors.New("mqtt: the first packet of a connection is too large")
	errPlace  = errors.New("mqtt: too many large packets are on their way")
	errSlow   = errors.New("mqtt: a large packet comes too slowly")
)

// SetDeadline is that of the next read.
func (c *timedConn) SetDeadline(t time.Time) error {
	if c.left > 0 && c.holds.Load() && (t.IsZero() || t.After(c.until)) {
		t = c.until
	}
	return c.SetReadDeadline(t)
}

func (c *timedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) && c.left > 0 && c.holds.Load() {
		return n, c.refused(fmt.Errorf("%w: want %v", errSlow, c.limits.pace))
	}
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
			} else if err := c.keepPace(n); err != nil {
				return err
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

// refused reports why the connection ends.
func (c *timedConn) refused(why error) error {
	if c.limits.refuse != nil {
		c.limits.refuse(why)
	}
	return why
}

// keepPace notes bytes of a packet.
func (c *timedConn) keepPace(n int) error {
	if !c.holds.Load() {
		return nil
	}
	t := c.coming.Came(n, time.Now())
	if t.IsZero() {
		return nil
	}
	c.until = t
	return c.SetReadDeadline(t)
}

// sender is the address of the device.
func (c *timedConn) sender() netip.AddrPort {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	return tcp.AddrPort()
}

// enter waits for the place of a large packet.
func (c *timedConn) enter() error {
	if !c.loggedIn.Load() {
		return c.refused(errLogin)
	}
	if !c.limits.places.Take(c.sender(), c.limits.pace.Whole) {
		return c.refused(errPlace)
	}
	c.holds.Store(true)
	if c.closed.Load() {
		c.leave()
		return net.ErrClosed
	}
	c.coming, c.until = c.limits.pace.Begin(time.Now())
	return c.SetReadDeadline(c.until)
}

// leave gives the place of a large packet back.
func (c *timedConn) leave() {
	if c.holds.Swap(false) {
		c.limits.places.Give(c.sender())
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
