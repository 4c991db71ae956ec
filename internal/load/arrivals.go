package load

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/consumer"
)

// Arrivals pairs predictions with the moments their messages were due. It may
// be used by several goroutines.
type Arrivals struct {
	mu   sync.Mutex
	due  map[string][]time.Time // of each key, those without a prediction yet
	took []arrival
	left int
	all  chan struct{}
}

type arrival struct {
	due time.Time
	ms  float64
}

// NewArrivals waits for that many predictions.
func NewArrivals(predictions int) *Arrivals {
	return &Arrivals{due: map[string][]time.Time{}, left: predictions, all: make(chan struct{})}
}

// All is closed with the last prediction.
func (a *Arrivals) All() <-chan struct{} { return a.all }

// Expect notes a message of a key that was due then.
func (a *Arrivals) Expect(key string, due time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due[key] = append(a.due[key], due)
}

// Take receives predictions that came now, one for each message.
func (a *Arrivals) Take(o consumer.Output) error {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range o.Predictions {
		waiting := a.due[p.Stream]
		if len(waiting) == 0 {
			return fmt.Errorf("load: a prediction of stream %q, for which no message was published", p.Stream)
		}
		a.due[p.Stream] = waiting[1:]
		a.took = append(a.took, arrival{waiting[0], float64(now.Sub(waiting[0])) / float64(time.Millisecond)})
		if a.left--; a.left == 0 {
			close(a.all)
		}
	}
	return nil
}

// Latencies are the times from due to predicted in ms, ascending, without those
// of messages that were due within warmUp of the first.
func (a *Arrivals) Latencies(warmUp time.Duration) []float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	var ms []float64
	var first time.Time
	for _, t := range a.took {
		if first.IsZero() || t.due.Before(first) {
			first = t.due
		}
	}
	for _, t := range a.took {
		if t.due.Sub(first) >= warmUp {
			ms = append(ms, t.ms)
		}
	}
	slices.Sort(ms)
	return ms
}

// Quantile of ascending values, the next one above; 0 of none.
func Quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return 0
	}
	return v[max(0, min(len(v)-1, int(math.Ceil(q*float64(len(v))))-1))]
}
