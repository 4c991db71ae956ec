package energy

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Meter counts the joules of a device. An Account calls a Meter from one goroutine at a time.
type Meter interface {
	Source() string           // description of the meter, for people
	Joules() (float64, error) // since an arbitrary start
}

// tick is the maximum interval between two readings: counters overflow after minutes, and power
// meters integrate from reading to reading.
const tick = time.Second

// Amount is energy in Wh.
type Amount struct {
	Gross     float64 `json:"wh"`
	AboveIdle float64 `json:"above_idle_wh"` // negative if the machine was busier during the measurement of idle power
}

// Account divides the energy of a meter evenly among the simultaneous spans. All methods are
// safe for concurrent use, and on nil.
type Account struct {
	mu      sync.Mutex
	meter   Meter
	open    map[*span]struct{}
	last    float64 // joules
	time    time.Time
	failure error // the meter's first error; afterwards nothing is measured
	idle    float64
	stop    func()
}

// span is the energy of one piece of work so far.
type span struct{ joules, seconds float64 }

// NewAccount starts to read the meter until Close.
func NewAccount(m Meter) (*Account, error) {
	j, err := m.Joules()
	if err != nil {
		return nil, err
	}
	a := &Account{meter: m, open: map[*span]struct{}{}, last: j, time: time.Now()}
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		t := time.NewTicker(tick)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				a.mu.Lock()
				a.settle()
				a.mu.Unlock()
			}
		}
	})
	a.stop = func() { cancel(); ended.Wait() }
	return a, nil
}

// Close stops the reading.
func (a *Account) Close() {
	if a != nil {
		a.stop()
	}
}

// settle divides the energy since the previous reading among the open spans.
func (a *Account) settle() {
	if a.failure != nil {
		return
	}
	j, err := a.meter.Joules()
	if err == nil && !(j >= a.last) {
		err = fmt.Errorf("energy: %s: the counter went back from %g to %g J", a.meter.Source(), a.last, j)
	}
	if err != nil {
		a.failure = err
		return
	}
	current := time.Now()
	n := float64(len(a.open))
	for s := range a.open {
		s.joules += (j - a.last) / n
		s.seconds += current.Sub(a.time).Seconds() / n
	}
	a.last, a.time = j, current
}

// Err returns the reason why measuring has stopped; nil while measuring.
func (a *Account) Err() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failure
}

func (a *Account) startSpan() *span {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settle()
	s := &span{}
	a.open[s] = struct{}{}
	return s
}

// endSpan returns nil if the meter has failed.
func (a *Account) endSpan(s *span) *Amount {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settle()
	delete(a.open, s)
	if a.failure != nil {
		return nil
	}
	return &Amount{Gross: s.joules / 3600, AboveIdle: (s.joules - a.idle*s.seconds) / 3600}
}

// Idle is the measured power of a device at rest.
type Idle struct {
	Source  string  `json:"source"`
	Watts   float64 `json:"idle_watts"`
	Seconds float64 `json:"idle_seconds"` // duration of the measurement
}

// measureIdle returns nil if the meter fails or ctx ends.
func (a *Account) measureIdle(ctx context.Context, d time.Duration) *Idle {
	read := func() (joules float64, start time.Time) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.settle()
		return a.last, a.time
	}
	if a == nil {
		return nil
	}
	before, began := read()
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(d):
	}
	after, ended := read()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failure != nil {
		return nil
	}
	seconds := ended.Sub(began).Seconds()
	a.idle = (after - before) / seconds
	return &Idle{a.meter.Source(), a.idle, seconds}
}
