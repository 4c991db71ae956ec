package listen

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Limits are the limits of one listener.
type Limits struct {
	// Connections is the maximum of simultaneous connections. Further clients wait in the
	// system's queue.
	Connections int
	// PerAddress is the maximum of simultaneous connections of one address, or of one 64-bit
	// network for IPv6. Further connections are closed at once. 0: no limit.
	PerAddress int
	// Name is the name of the listener in Log, which may be nil.
	Name string
	Log  *slog.Logger
}

const (
	acceptWait = 100 * time.Millisecond // wait after a temporary error
	logEvery   = time.Minute            // interval between two log lines about refused connections
)

// Limit applies limits to a listener. If the process has no free file, or the system no memory,
// Accept retries: otherwise most servers would end.
func Limit(l net.Listener, limits Limits) net.Listener {
	return &limited{Listener: l, limits: limits, room: make(chan struct{}, limits.Connections), ended: make(chan struct{}), perAddress: map[netip.Prefix]int{}}
}

// limited is a listener with limits.
type limited struct {
	net.Listener
	limits  Limits
	room    chan struct{}
	ended   chan struct{}
	closing sync.Once

	mu         sync.Mutex
	perAddress map[netip.Prefix]int // connections per address
	refused    int                  // connections refused since the last log line
	logged     time.Time
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if slices.ContainsFunc(temporaryErrors, func(e error) bool { return errors.Is(err, e) }) {
			select {
			case <-time.After(acceptWait):
			case <-l.ended:
				return nil, net.ErrClosed
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		address := prefixOf(c.RemoteAddr())
		if !l.admitAddress(address) {
			_ = c.Close()
			continue
		}
		select {
		case l.room <- struct{}{}:
		case <-l.ended:
			l.releaseAddress(address)
			_ = c.Close()
			return nil, net.ErrClosed
		}
		return &counted{Conn: c, release: sync.OnceFunc(func() {
			<-l.room
			l.releaseAddress(address)
		})}, nil
	}
}

// Close implements net.Listener.
func (l *limited) Close() error {
	l.closing.Do(func() { close(l.ended) })
	return l.Listener.Close()
}

// admitAddress counts a connection of an address, unless the address is at its limit.
func (l *limited) admitAddress(address netip.Prefix) bool {
	if l.limits.PerAddress == 0 {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.perAddress[address] < l.limits.PerAddress {
		l.perAddress[address]++
		return true
	}
	l.refused++
	if now := time.Now(); l.limits.Log != nil && now.Sub(l.logged) >= logEvery {
		l.limits.Log.Warn("connections were closed: their address has reached its limit", "listener", l.limits.Name, "address", address.Addr(), "limit", l.limits.PerAddress, "times", l.refused)
		l.refused, l.logged = 0, now
	}
	return false
}

// releaseAddress removes a connection of an address from the count.
func (l *limited) releaseAddress(address netip.Prefix) {
	if l.limits.PerAddress == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.perAddress[address]--; l.perAddress[address] == 0 {
		delete(l.perAddress, address)
	}
}

// prefixOf returns the counted prefix of a client's address; the zero value if the client has
// no TCP address.
func prefixOf(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	return Network(tcp.AddrPort().Addr())
}

// counted is a connection of a limited listener.
type counted struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.release()
	return c.Conn.Close()
}

var temporaryErrors = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED}
