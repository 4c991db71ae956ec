package stats

import (
	"sync"
	"sync/atomic"
)

// Shadows counts what shadows predict, by their readouts. The zero value is ready.
type Shadows struct {
	mu  sync.Mutex // guards the map; it is taken once for a message
	all map[string]*Shadow
}

// Shadow counts what one predicts.
type Shadow struct {
	Predictions atomic.Uint64 // that the server has
	Missed      atomic.Uint64 // that were not published
	Agreeing    atomic.Uint64 // of both: those of the class that the answering readout has
}

// CountersOf are the counts of one.
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

// EachShadow hands all of them on, in no order.
func (s *Shadows) EachShadow(yield func(readout string, n *Shadow)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for readout, n := range s.all {
		yield(readout, n)
	}
}
