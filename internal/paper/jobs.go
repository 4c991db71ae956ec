package paper

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// job is one trial or draw. Trained models tell of their epochs themselves and
// leave its work 0.
type job struct {
	work   float64 // of all of it
	sample float64 // of a sample through one network: told of while the job runs
	do     func(context.Context, openEngine) error
}

// all does the jobs on all threads, the largest first so that they end
// together, and stops at the first error.
func (r *runner) all(ctx context.Context, jobs []job) error {
	slices.SortStableFunc(jobs, func(a, b job) int { return cmp.Compare(b.work, a.work) })
	return r.inOrder(ctx, jobs)
}

// inOrder begins the jobs in their order.
func (r *runner) inOrder(ctx context.Context, jobs []job) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(r.Threads, len(jobs)) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(jobs) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				p := &piece{r: r, left: jobs[i].work, sample: jobs[i].sample}
				if err := jobs[i].do(ctx, p.open); err != nil {
					cancel(err)
					return
				}
				p.end()
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// piece tells of one job's work while its engines do it: a trial may take minutes.
type piece struct {
	r            *runner
	sample       float64 // work of a sample through one network
	mu           sync.Mutex
	left, untold float64
}

// tellAt is how much work is told of at once, some milliseconds' of a core.
const tellAt = 1

// open opens an engine whose samples count as the job's.
func (p *piece) open(net *reservoir.Network, slots int) (reservoir.Engine, error) {
	e, err := p.r.NewEngine(net, slots)
	if err != nil {
		return nil, err
	}
	return counted{e, p}, nil
}

// counted is an engine that tells how far it is.
type counted struct {
	reservoir.Engine
	of *piece
}

func (c counted) Advance(inputs []float32, runs []reservoir.Run, scores []float32) error {
	err := c.Engine.Advance(inputs, runs, scores)
	if err == nil {
		samples := 0
		for i := range runs {
			samples += int(runs[i].To - runs[i].From)
		}
		c.of.tell(float64(samples) * c.of.sample)
	}
	return err
}

// tell takes work off the piece, up to what is left of it.
func (p *piece) tell(work float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	work = min(work, p.left)
	p.left -= work
	if p.untold += work; p.untold >= tellAt {
		p.r.advance(p.untold)
		p.untold = 0
	}
}

// end tells of the rest.
func (p *piece) end() { p.r.advance(p.left + p.untold) }

// advance tells of work done.
func (r *runner) advance(work float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done += work
	if r.Progress != nil {
		r.Progress(int64(r.done), int64(max(r.done, r.total)), "gigaflops of trials and draws")
	}
}

// expect corrects the work that there is in all.
func (r *runner) expect(more float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total += more
}

// phase is the trials, or the draws, of a model on a data set.
type phase struct {
	dataset, model string
	draws          bool
}

// plan notes what a phase is expected to take, in the place of what was noted
// before.
func (r *runner) plan(p phase, work float64) {
	r.expect(work - r.planned[p])
	r.planned[p] = work
}

// total is the work of all jobs.
func total(jobs []job) (work float64) {
	for _, j := range jobs {
		work += j.work
	}
	return work
}
