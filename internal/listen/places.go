package listen

import (
	"net/netip"
	"sync"
	"time"
)

// Places are those for large messages on their way: each stands for the memory of one.
// One address, or network, has a quarter of them at most, so that a single sender keeps
// nobody else out.
type Places struct {
	most, each int
	mu         sync.Mutex
	used       int
	of         map[netip.Prefix]int
	given      chan struct{} // closed when a place is given back
}

// NewPlaces makes places that are free.
func NewPlaces(most int) *Places {
	return &Places{most: most, each: max(1, most/4), of: map[netip.Prefix]int{}, given: make(chan struct{})}
}

// Take takes a place for a sender, for which it waits that long at most.
func (p *Places) Take(sender netip.AddrPort, wait time.Duration) bool {
	network := Network(sender.Addr())
	late := time.After(wait)
	for {
		p.mu.Lock()
		if p.used < p.most && p.of[network] < p.each {
			p.used++
			p.of[network]++
			p.mu.Unlock()
			return true
		}
		given := p.given
		p.mu.Unlock()
		select {
		case <-given:
		case <-late:
			return false
		}
	}
}

// Give gives a place back.
func (p *Places) Give(sender netip.AddrPort) {
	network := Network(sender.Addr())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used--
	if p.of[network]--; p.of[network] == 0 {
		delete(p.of, network)
	}
	close(p.given)
	p.given = make(chan struct{})
}

// Used is how many are taken.
func (p *Places) Used() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// Network is an address as limits count it: with IPv6 its network of 64 bits, in which a
// single machine has any number of addresses.
func Network(address netip.Addr) netip.Prefix {
	address = address.Unmap().WithZone("")
	bits := address.BitLen()
	if address.Is6() && !address.IsLoopback() {
		bits = 64
	}
	p, _ := address.Prefix(bits)
	return p
}
