package energy

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Meter counts the joules that a device takes. An Account calls it from one
// goroutine at a time.
type Meter interface {
	Source() string           // what is read, for people
	Joules() (float64, error) // from some moment on
}

// tick is how often a meter is read at least: counters go round after minutes,
// and meters of power alone integrate from reading to reading.
const tick = time.Second

// Amount is energy in Wh.
type Amount struct {
	Gross     float64 `json:"wh"`
	AboveIdle float64 `json:"above_idle_wh"` // below 0 where the machine did more while idle power was measured
}

// Account divides what a meter counts evenly among the spans open at each
// moment. All methods may be called by several goroutines at once, and on nil.
type Account struct {
	mu    sync.Mutex
	meter Meter
	open  map[*span]struct{}
	last  float64 // joules
	at    time.Time
	err   error // the first of the meter; from then on nothing is known
	idle  float64
	stop  func()
}

// span is what one piece of work got.
type span struct{ joules, seconds float64 }

// NewAccount reads the meter until Close.
func NewAccount(m Meter) (*Account, error) {
	j, err := m.Joules()
	if err != nil {
		return nil, err
	}
	a := &Account{meter: m, open: map[*span]struct{}{}, last: j, at: time.Now()}
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

// Close ends the reading.
func (a *Account) Close() {
	if a != nil {
		a.stop()
	}
}

// settle gives what was counted since the last time to the open spans.
func (a *Account) settle() {
	if a.err != nil {
		return
	}
	j, err := a.meter.Joules()
	if err == nil && !(j >= a.last) {
		err = fmt.Errorf("energy: %s: the counter went back from %g to %g J", a.meter.Source(), a.last, j)
	}
	if err != nil {
		a.err = err
		return
	}
	now := time.Now()
	n := float64(len(a.open))
	for s := range a.open {
		s.joules += (j - a.last) / n
		s.seconds += now.Sub(a.at).Seconds() / n
	}
	a.last, a.at = j, now
}

// Err is why nothing is measured any more.
func (a *Account) Err() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

func (a *Account) begin() *span {
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

// end is nil where the meter failed before or meanwhile.
func (a *Account) end(s *span) *Amount {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settle()
	delete(a.open, s)
	if a.err != nil {
		return nil
	}
	return &Amount{Gross: s.joules / 3600, AboveIdle: (s.joules - a.idle*s.seconds) / 3600}
}

// Idle is the power of a device at rest, and how it was measured.
type Idle struct {
	Source  string  `json:"source"`
	Watts   float64 `json:"idle_watts"`
	Seconds float64 `json:"idle_seconds"` // measured for
}

// measureIdle is nil where the meter fails or ctx ends.
func (a *Account) measureIdle(ctx context.Context, d time.Duration) *Idle {
	read := func() (joules float64, at time.Time) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.settle()
		return a.last, a.at
	}
	if a == nil {
		return nil
	}
	from, began := read()
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(d):
	}
	to, ended := read()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return nil
	}
	seconds := ended.Sub(began).Seconds()
	a.idle = (to - from) / seconds
	return &Idle{a.meter.Source(), a.idle, seconds}
}
