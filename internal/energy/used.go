package energy

import (
	"context"
	"sync"
	"time"
)

// Accounts are the accounts of a machine's devices; nil for an unmeasured device.
type Accounts struct{ CPU, GPU *Account }

// Used is the energy of a piece of work per device; nil if unknown.
type Used struct {
	CPU *Amount `json:"cpu,omitempty"`
	GPU *Amount `json:"gpu,omitempty"`
}

// Span is a running piece of work.
type Span struct {
	accounts Accounts
	cpu, gpu *span
}

// Start starts a piece of work; call its End once.
func (a Accounts) Start() Span { return Span{a, a.CPU.startSpan(), a.GPU.startSpan()} }

// End returns the energy since Start.
func (s Span) End() Used { return Used{s.accounts.CPU.endSpan(s.cpu), s.accounts.GPU.endSpan(s.gpu)} }

// Sum adds up energies. An amount unknown in a part is unknown in the sum; a sum of 0 is
// unknown, too, because its counter never moved.
func Sum(parts []Used) Used {
	add := func(values func(Used) *Amount) *Amount {
		var sum Amount
		for _, u := range parts {
			a := values(u)
			if a == nil {
				return nil
			}
			sum.Gross += a.Gross
			sum.AboveIdle += a.AboveIdle
		}
		if sum.Gross == 0 {
			return nil
		}
		return &sum
	}
	return Used{add(func(u Used) *Amount { return u.CPU }), add(func(u Used) *Amount { return u.GPU })}
}

// Over divides by n.
func (u Used) Over(n int) Used {
	share := func(a *Amount) *Amount {
		if a == nil {
			return nil
		}
		return &Amount{a.Gross / float64(n), a.AboveIdle / float64(n)}
	}
	return Used{share(u.CPU), share(u.GPU)}
}

// MeasureIdle waits for d > 0 while the caller does nothing, and returns the mean power as the
// power at rest. An unmeasured power is nil.
func (a Accounts) MeasureIdle(ctx context.Context, d time.Duration) (cpu, gpu *Idle) {
	var both sync.WaitGroup
	both.Go(func() { cpu = a.CPU.measureIdle(ctx, d) })
	gpu = a.GPU.measureIdle(ctx, d)
	both.Wait()
	return cpu, gpu
}
