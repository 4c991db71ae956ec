package energy

import (
	"context"
	"sync"
	"time"
)

// Accounts are those of a machine's devices; nil where one is not measured.
type Accounts struct{ CPU, GPU *Account }

// Used is what a piece of work used of each; nil where that is not known.
type Used struct {
	CPU *Amount `json:"cpu,omitempty"`
	GPU *Amount `json:"gpu,omitempty"`
}

// Span is a piece of work under way.
type Span struct {
	accounts Accounts
	cpu, gpu *span
}

// Begin begins a piece of work; its End must be called once.
func (a Accounts) Begin() Span { return Span{a, a.CPU.begin(), a.GPU.begin()} }

// End gives what was used since Begin.
func (s Span) End() Used { return Used{s.accounts.CPU.end(s.cpu), s.accounts.GPU.end(s.gpu)} }

// Sum adds up; what one of the parts does not know is not known of the whole,
// nor is a sum of 0, of a counter that never moved.
func Sum(parts []Used) Used {
	add := func(of func(Used) *Amount) *Amount {
		var sum Amount
		for _, u := range parts {
			a := of(u)
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

// MeasureIdle waits for d, more than 0, in which the caller does nothing, and
// takes the mean power of that time as the power at rest. A power that is not
// measured is nil.
func (a Accounts) MeasureIdle(ctx context.Context, d time.Duration) (cpu, gpu *Idle) {
	var both sync.WaitGroup
	both.Go(func() { cpu = a.CPU.measureIdle(ctx, d) })
	gpu = a.GPU.measureIdle(ctx, d)
	both.Wait()
	return cpu, gpu
}
