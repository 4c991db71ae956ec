package stats

import (
	"sync"
	"sync/atomic"
)

// Shadows counts the shadows' predictions, by readout. The zero value is ready.
type Shadows struct {
	mu  sync.Mutex // guards the map; locked once per message
	all map[string]*Shadow
}

// Shadow counts the predictions of one shadow.
type Shadow struct {
	Predictions atomic.Uint64 // stored by the server
	Missed      atomic.Uint64 // not published
	Agreeing    atomic.Uint64 // of both: with the same class as the active readout
}

// CountersOf returns the counters of a readout.
func (s *Shadows) CountersOf(readout string) *Shadow {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]*Shadow{}
	}
	if s.all[readout] == nil {
		s.all[readout] = new(Shadow)
	}
	return s.all[readout]
}

// EachShadow calls yield for all readouts, in any order.
func (s *Shadows) EachShadow(yield func(readout string, n *Shadow)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for readout, n := range s.all {
		yield(readout, n)
	}
}
