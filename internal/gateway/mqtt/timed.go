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
	loginWait = 10 * time.Second // limit for the first packet of a connection
	writeWait = 30 * time.Second // limit for a write to a device that does not read

	drainTime  = time.Second // after a packet over the size limit
	drainBytes = 8 << 20

	smallPacket = 8 << 10  // bytes; packets up to this size need no place
	largeBytes  = 64 << 20 // limit of large packets in transit
)

// timedListener accepts connections with time limits for the first packet, for a large packet,
// and for writes.
type timedListener struct {
	net.Listener
	login, write time.Duration
	pace         listen.Pace    // minimum pace of a large packet
	places       *listen.Places // places for large packets in transit
	refuse       func(error)    // gets the error of a refused connection; nil: no report
	maxPacket    int            // limit of a packet in bytes, as the library counts; 0: no limit
}

func (t timedListener) Accept() (net.Conn, error) {
	c, err := t.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c.SetReadDeadline(time.Now().Add(t.login))
	return &timedConn{Conn: c, limits: t}, nil
}

// timedConn applies the library's deadlines, which come from the device's keepalive, only to
// reading. The library sets a deadline before it reads a packet. Under backpressure the
// deadline may expire, and the next acknowledgements must not fail because of it.
//
// The library allocates a packet's memory when it has read the packet's length. So timedConn
// parses the lengths: before the login all packets must be small; later a large packet needs
// one of a few places, and must arrive at a minimum pace.
type timedConn struct {
	net.Conn
	limits   timedListener
	loggedIn atomic.Bool

	// State of the reading goroutine: the packet in transit.
	inHeader  bool // the first byte was read, the length is incomplete
	length    int
	shift     int
	remaining int // missing bytes
	arrival   listen.Arrival
	deadline  time.Time // deadline of a large packet

	hasPlace, closed atomic.Bool // hasPlace: the connection has a place

	version5, tooLarge atomic.Bool // version5: the protocol is MQTT 5; tooLarge: a packet was too large
	notified           sync.Once
}

var (
	errLength = errors.New("mqtt: malformed length of a packet")
	errLogin  = errors.New("mqtt: the first packet of a connection is too large")
	errPlace  = errors.New("mqtt: too many large packets are in transit")
	errSlow   = errors.New("mqtt: a large packet arrives too slowly")
)

// SetDeadline sets the deadline of the next read.
func (c *timedConn) SetDeadline(t time.Time) error {
	if c.remaining > 0 && c.hasPlace.Load() && (t.IsZero() || t.After(c.deadline)) {
		t = c.deadline
	}
	return c.SetReadDeadline(t)
}

func (c *timedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) && c.remaining > 0 && c.hasPlace.Load() {
		return n, c.reportRefusal(fmt.Errorf("%w: want %v", errSlow, c.limits.pace))
	}
	if failed := c.trackPackets(b[:n]); failed != nil {
		return 0, failed
	}
	return n, err
}

// trackPackets parses the packet boundaries in the bytes read.
func (c *timedConn) trackPackets(b []byte) error {
	for len(b) > 0 {
		if c.remaining > 0 {
			n := min(c.remaining, len(b))
			c.remaining -= n
			b = b[n:]
			if c.remaining == 0 {
				c.releasePlace()
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
			c.inHeader, c.remaining = false, c.length
			if c.limits.maxPacket > 0 && c.length+1 > c.limits.maxPacket { // the library ends the connection
				c.tooLarge.Store(true)
				return nil
			}
			if c.remaining > smallPacket {
				if err := c.acquirePlace(); err != nil {
					return err
				}
			}
		case c.shift > 21:
			return errLength
		}
	}
	return nil
}

// reportRefusal reports the reason why the connection ends.
func (c *timedConn) reportRefusal(err error) error {
	if c.limits.refuse != nil {
		c.limits.refuse(err)
	}
	return err
}

// keepPace counts bytes of a large packet, and sets its next deadline.
func (c *timedConn) keepPace(n int) error {
	if !c.hasPlace.Load() {
		return nil
	}
	t := c.arrival.AddBytes(n, time.Now())
	if t.IsZero() {
		return nil
	}
	c.deadline = t
	return c.SetReadDeadline(t)
}

// senderAddr returns the address of the device.
func (c *timedConn) senderAddr() netip.AddrPort {
	tcp, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	return tcp.AddrPort()
}

// acquirePlace waits for a place for a large packet.
func (c *timedConn) acquirePlace() error {
	if !c.loggedIn.Load() {
		return c.reportRefusal(errLogin)
	}
	if !c.limits.places.Acquire(c.senderAddr(), c.limits.pace.Whole) {
		return c.reportRefusal(errPlace)
	}
	c.hasPlace.Store(true)
	if c.closed.Load() {
		c.releasePlace()
		return net.ErrClosed
	}
	c.arrival, c.deadline = c.limits.pace.Start(time.Now())
	return c.SetReadDeadline(c.deadline)
}

// releasePlace returns the place of a large packet.
func (c *timedConn) releasePlace() {
	if c.hasPlace.Swap(false) {
		c.limits.places.Release(c.senderAddr())
	}
}

func (c *timedConn) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.limits.write)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// Close sends the reason to an MQTT 5 device if its packet was too large. Then Close reads the
// device's data for a moment: otherwise the system may end the connection before the device has
// read the reason.
func (c *timedConn) Close() error {
	c.closed.Store(true)
	c.releasePlace()
	if !c.tooLarge.Load() || !c.version5.Load() {
		return c.Conn.Close()
	}
	c.notified.Do(func() {
		c.Write(tooLargePacket(c.limits.maxPacket))
		c.SetReadDeadline(time.Now().Add(drainTime))
		go func() {
			defer c.Conn.Close()
			io.CopyN(io.Discard, c.Conn, drainBytes)
		}()
	})
	return nil
}

// tooLargePacket returns a DISCONNECT of MQTT 5 with reason 0x95, packet too large.
func tooLargePacket(limit int) []byte {
	const disconnect, packetTooLarge, reasonString = 0xe0, 0x95, 0x1f
	reason := fmt.Sprintf("the limit of a packet is %d bytes: send fewer samples per message", limit)
	return append([]byte{disconnect, byte(5 + len(reason)), packetTooLarge, byte(3 + len(reason)), reasonString, 0, byte(len(reason))}, reason...)
}
