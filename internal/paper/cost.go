package paper

import (
	"context"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/energy"
)

// cost is the time and energy of a piece of work.
type cost struct {
	seconds float64 // wall clock
	energy  energy.Used
}

// measure runs a piece of work and returns its cost. Before the first piece of a run, the
// machine's power at rest is measured, while no work runs.
func measure[T any](ctx context.Context, r *runner, work func() (T, error)) (result T, c cost, err error) {
	r.rested.Do(func() {
		var m Metering
		m.CPU, m.GPU = r.Energy.MeasureIdle(ctx, r.Idle)
		if m != (Metering{}) {
			r.unrest = r.writeRecord(record{Metering: &m})
		}
	})
	if r.unrest != nil {
		return result, c, r.unrest
	}
	span, start := r.Energy.Start(), time.Now()
	result, err = work()
	return result, cost{time.Since(start).Seconds(), span.End()}, err
}

// isMetered reports whether energy is measured.
func (r *runner) isMetered() bool { return r.Energy != energy.Accounts{} }

// spent returns the cost of the trials of a search so far, including interrupted trials.
func (r *runner) spent(dataset, model string) (total cost) {
	r.Store.mu.Lock()
	defer r.Store.mu.Unlock()
	var parts []energy.Used
	for i := range r.Configurations {
		if t, ok := r.trials[key{dataset, model, i}]; ok {
			total.seconds += t.Seconds
			parts = append(parts, t.Energy)
		}
	}
	total.energy = energy.Sum(parts)
	return total
}
