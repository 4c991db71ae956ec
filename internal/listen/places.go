package listen

import (
	"net/netip"
	"sync"
	"time"
)

// Places limits the large messages in transit: each place stands for the memory of one message.
// One address, or network, gets at most a quarter of the places, so that a single sender cannot
// block others.
type Places struct {
	limit, perNetwork int
	mu                sync.Mutex
	used              int
	byNetwork         map[netip.Prefix]int
	released          chan struct{} // closed at each release of a place
}

// NewPlaces returns a number of free places.
func NewPlaces(limit int) *Places {
	return &Places{limit: limit, perNetwork: max(1, limit/4), byNetwork: map[netip.Prefix]int{}, released: make(chan struct{})}
}

// Acquire takes a place for a sender. It waits at most the given time, and returns false after
// it.
func (p *Places) Acquire(sender netip.AddrPort, wait time.Duration) bool {
	network := Network(sender.Addr())
	late := time.After(wait)
	for {
		p.mu.Lock()
		if p.used < p.limit && p.byNetwork[network] < p.perNetwork {
			p.used++
			p.byNetwork[network]++
			p.mu.Unlock()
			return true
		}
		released := p.released
		p.mu.Unlock()
		select {
		case <-released:
		case <-late:
			return false
		}
	}
}

// Release returns a place.
func (p *Places) Release(sender netip.AddrPort) {
	network := Network(sender.Addr())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used--
	if p.byNetwork[network]--; p.byNetwork[network] == 0 {
		delete(p.byNetwork, network)
	}
	close(p.released)
	p.released = make(chan struct{})
}

// Used returns the number of used places.
func (p *Places) Used() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// Network returns the counted prefix of an address: with IPv6 the 64-bit network, because a
// single machine can have any number of addresses in its network.
func Network(address netip.Addr) netip.Prefix {
	address = address.Unmap().WithZone("")
	bits := address.BitLen()
	if address.Is6() && !address.IsLoopback() {
		bits = 64
	}
	p, _ := address.Prefix(bits)
	return p
}
