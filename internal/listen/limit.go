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

// Limits are those of one listener.
type Limits struct {
	// Connections is how many there are at a time. Others wait in the queue of the
	// system until one ends.
	Connections int
	// PerAddress is how many of them come from one address, or from one network of
	// 64 bits with IPv6. Further ones are closed at once. 0 = no limit.
	PerAddress int
	// Name is that of the listener in Log, which may be nil.
	Name string
	Log  *slog.Logger
}

const (
	acceptWait = 100 * time.Millisecond // after an error that passes
	logEvery   = time.Minute            // between two lines about refused connections
)

// Limit applies limits to a listener. It also waits where the process has no file for
// one more connection, or the system no memory: whoever accepts would end for good.
func Limit(l net.Listener, limits Limits) net.Listener {
	return &limited{Listener: l, limits: limits, room: make(chan struct{}, limits.Connections), ended: make(chan struct{}), from: map[netip.Prefix]int{}}
}

// limited is a listener with limits.
type limited struct {
	net.Listener
	limits Limits
	room   chan struct{}
	ended  chan struct{}
	end    sync.Once

	mu      sync.Mutex
	from    map[netip.Prefix]int // connections of each address
	refused int                  // since the last line in the log
	logged  time.Time
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if slices.ContainsFunc(passing, func(e error) bool { return errors.Is(err, e) }) {
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
		if !l.admit(address) {
			_ = c.Close()
			continue
		}
		select {
		case l.room <- struct{}{}:
		case <-l.ended:
			l.leave(address)
			_ = c.Close()
			return nil, net.ErrClosed
		}
		return &counted{Conn: c, leave: sync.OnceFunc(func() {
			<-l.room
			l.leave(address)
		})}, nil
	}
}

// Close implements net.Listener.
func (l *limited) Close() error {
	l.end.Do(func() { close(l.ended) })
	return l.Listener.Close()
}

// admit counts a connection of an address, unless the address has too many.
func (l *limited) admit(address netip.Prefix) bool {
	if l.limits.PerAddress == 0 {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.from[address] < l.limits.PerAddress {
		l.from[address]++
		return true
	}
	l.refused++
	if now := time.Now(); l.limits.Log != nil && now.Sub(l.logged) >= logEvery {
		l.limits.Log.Warn("connections were closed: their address has too many already", "listener", l.limits.Name, "address", address.Addr(), "limit", l.limits.PerAddress, "times", l.refused)
		l.refused, l.logged = 0, now
	}
	return false
}

// leave forgets a connection of an address.
func (l *limited) leave(address netip.Prefix) {
	if l.limits.PerAddress == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.from[address]--; l.from[address] == 0 {
		delete(l.from, address)
	}
}

// prefixOf is the address of a client as limits count it; the zero value for clients
// without one.
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
	leave func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

var passing = []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED}
