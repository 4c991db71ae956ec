package figures

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
)

// Grid is the grid of Fig. 2 and 3: every combination of Recurrent, Gamma and Eps, each
// with Draws draws of the weights.
type Grid struct {
	Units     int       `json:"units"`
	Draws     int       `json:"draws"`
	Seed      uint64    `json:"seed"`             // of the first draw
	Recurrent []float64 `json:"recurrent_scales"` // of W, uniform in [-scale, scale]
	Gamma     []float64 `json:"gamma"`            // diffusion, ascending
	Eps       []float64 `json:"eps"`              // step size, ascending
	Steps     int       `json:"steps"`            // of the driven reservoir, Fig. 3
	Every     int       `json:"every"`            // one of every Every Jacobians is decomposed if eps*rho < .1, else all
}

// PaperGrid is the paper's grid: 100 units, 3 draws, 500 steps, and each decade of its
// ranges. If sufficient, only every tenth of the 500 Jacobians is decomposed.
func PaperGrid(seed uint64) Grid {
	return Grid{
		Units: 100, Draws: 3, Seed: seed, Steps: 500, Every: 10,
		Recurrent: decades(-3, 0, 1), Gamma: decades(-10, -1, 1), Eps: decades(-10, -1, 1),
	}
}

// QuickGrid covers the same ranges in seconds: fewer units, draws, steps and
// cells.
func QuickGrid(seed uint64) Grid {
	return Grid{
		Units: 20, Draws: 2, Seed: seed, Steps: 100, Every: 10,
		Recurrent: decades(-3, 0, 1), Gamma: decades(-10, -1, 3), Eps: decades(-10, -1, 3),
	}
}

// decades returns 10^from, 10^(from+by), ... up to 10^to.
func decades(from, to, by int) []float64 {
	var v []float64
	for e := from; e <= to; e += by {
		v = append(v, math.Pow10(e))
	}
	return v
}

// Limits of a grid: far beyond practical use, and small enough for memory.
const (
	maxUnits = 2000
	maxDraws = 1000
	maxSteps = 1 << 20
	maxCells = 1 << 16
)

// Validate reports the errors of a grid.
func (g Grid) Validate() error {
	for _, r := range []struct {
		name      string
		v, lo, hi int
	}{
		{"units", g.Units, 2, maxUnits}, {"draws", g.Draws, 1, maxDraws}, {"steps", g.Steps, 1, maxSteps}, {"every", g.Every, 1, g.Steps},
	} {
		if r.v < r.lo || r.v > r.hi {
			return fmt.Errorf("figures: %s = %d, want %d to %d", r.name, r.v, r.lo, r.hi)
		}
	}
	cells := 1
	for _, r := range []struct {
		name string
		v    []float64
		hi   float64
	}{{"recurrent scale", g.Recurrent, 1e3}, {"gamma", g.Gamma, 10}, {"eps", g.Eps, 10}} {
		if len(r.v) == 0 {
			return fmt.Errorf("figures: no %s, want at least one", r.name)
		}
		if cells *= len(r.v); cells > maxCells {
			return fmt.Errorf("figures: more than %d cells, want fewer", maxCells)
		}
		for i, v := range r.v {
			if !(v >= 1e-15 && v <= r.hi) {
				return fmt.Errorf("figures: %s %g, want 1e-15 to %g", r.name, v, r.hi)
			}
			if i > 0 && v <= r.v[i-1] {
				return fmt.Errorf("figures: %s %g after %g, want ascending values", r.name, v, r.v[i-1])
			}
		}
	}
	return nil
}

// Cell is a draw of a cell of the grid.
type Cell struct {
	Recurrent, Gamma, Eps float64
	Draw                  int // from 0
}

func (c Cell) String() string {
	return fmt.Sprintf("recurrent scale %g, gamma %g, eps %g, draw %d", c.Recurrent, c.Gamma, c.Eps, c.Draw)
}

// cells lists the grid: recurrent scales, then gamma, then eps, then draws.
func (g Grid) cells() []Cell {
	var all []Cell
	for _, w := range g.Recurrent {
		for _, gamma := range g.Gamma {
			for _, eps := range g.Eps {
				for d := range g.Draws {
					all = append(all, Cell{w, gamma, eps, d})
				}
			}
		}
	}
	return all
}

// firstDraw returns the index in cells of the first draw of a cell.
func (g Grid) firstDraw(recurrent, gamma, eps int) int {
	return ((recurrent*len(g.Gamma)+gamma)*len(g.Eps) + eps) * g.Draws
}

// Options configure a computation; no result depends on them.
type Options struct {
	Threads  int                                  // 0: all cores
	Progress func(done, total int64, what string) // may be nil; called from several goroutines
}

// forEach calls f for 0 to n-1 from several goroutines, and stops at the first error or
// when ctx ends. The results of f must depend only on its index.
func (o Options) forEach(ctx context.Context, n int, what string, f func(ctx context.Context, i int) error) error {
	threads := o.Threads
	if threads < 1 {
		threads = runtime.GOMAXPROCS(0)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next, done atomic.Int64
	var wg sync.WaitGroup
	for range min(threads, n) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if err := f(ctx, int(i)); err != nil {
					cancel(err)
					return
				}
				if d := done.Add(1); o.Progress != nil {
					o.Progress(d, int64(n), what)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
