package gateway

import (
	"net/netip"
	"sync"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/listen"
)

// addresses is how many senders of new streams are distinguished within a minute. All
// further senders count as one.
const addresses = 1 << 14

// begun counts the new streams of each sender in the minute. Any sender may invent
// names, and the job keeps a state for each name.
type begun struct {
	most int // 0 = any number

	mu     sync.Mutex
	minute time.Time
	of     map[netip.Prefix]int
}

// admitKey counts a new stream of a sender, unless the sender has too many.
func (b *begun) admitKey(from string, now time.Time) bool {
	if b.most == 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.minute) >= time.Minute {
		b.minute, b.of = now, map[netip.Prefix]int{}
	}
	address := networkOf(from)
	if _, there := b.of[address]; !there && len(b.of) >= addresses {
		address = netip.Prefix{}
	}
	if b.of[address] >= b.most {
		return false
	}
	b.of[address]++
	return true
}

// networkOf returns the network of a sender. Senders without an address, for example
// clients of another broker, count as a single sender.
func networkOf(from string) netip.Prefix {
	at, _ := netip.ParseAddrPort(from)
	return listen.Network(at.Addr())
}
