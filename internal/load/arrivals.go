package load

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/consumer"
)

// Arrivals pairs predictions with the due times of their messages. It is safe for concurrent
// use.
type Arrivals struct {
	mu        sync.Mutex
	due       map[string][]time.Time // of messages without a prediction, by key
	latencies []arrival
	missing   int
	complete  chan struct{}
}

type arrival struct {
	due time.Time
	ms  float64
}

// NewArrivals returns an Arrivals for a number of predictions.
func NewArrivals(predictions int) *Arrivals {
	return &Arrivals{due: map[string][]time.Time{}, missing: predictions, complete: make(chan struct{})}
}

// Complete is closed with the last prediction.
func (a *Arrivals) Complete() <-chan struct{} { return a.complete }

// Expect adds a message of a key with its due time.
func (a *Arrivals) Expect(key string, due time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due[key] = append(a.due[key], due)
}

// Record adds the predictions that arrive now, one per message.
func (a *Arrivals) Record(o consumer.Output) error {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range o.Predictions {
		waiting := a.due[p.Stream]
		if len(waiting) == 0 {
			return fmt.Errorf("load: a prediction of stream %q, for which no message was published", p.Stream)
		}
		a.due[p.Stream] = waiting[1:]
		a.latencies = append(a.latencies, arrival{waiting[0], float64(now.Sub(waiting[0])) / float64(time.Millisecond)})
		if a.missing--; a.missing == 0 {
			close(a.complete)
		}
	}
	return nil
}

// Latencies returns the times from due to predicted in ms, ascending, without the messages due
// within warmUp after the first.
func (a *Arrivals) Latencies(warmUp time.Duration) []float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	var ms []float64
	var first time.Time
	for _, t := range a.latencies {
		if first.IsZero() || t.due.Before(first) {
			first = t.due
		}
	}
	for _, t := range a.latencies {
		if t.due.Sub(first) >= warmUp {
			ms = append(ms, t.ms)
		}
	}
	slices.Sort(ms)
	return ms
}

// Quantile returns the quantile of ascending values, rounded up to a value; 0 without values.
func Quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return 0
	}
	return v[max(0, min(len(v)-1, int(math.Ceil(q*float64(len(v))))-1))]
}
