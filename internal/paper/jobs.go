package paper

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// job is a trial or draw. Trained models report their epochs themselves and leave its
// work 0.
type job struct {
	work   float64 // total work
	sample float64 // work of a sample through a network, reported while the job runs
	do     func(context.Context, openEngine) error
}

// runAll runs the jobs on all threads, the largest first so that they end together, and
// stops at the first error.
func (r *runner) runAll(ctx context.Context, jobs []job) error {
	slices.SortStableFunc(jobs, func(a, b job) int { return cmp.Compare(b.work, a.work) })
	return r.inOrder(ctx, jobs)
}

// inOrder starts the jobs in their order.
func (r *runner) inOrder(ctx context.Context, jobs []job) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(r.Threads, len(jobs)) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(jobs) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				p := &piece{r: r, remaining: jobs[i].work, sample: jobs[i].sample}
				if err := jobs[i].do(ctx, p.open); err != nil {
					cancel(err)
					return
				}
				p.reportRest()
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// piece reports the work of a job while its engines run: a trial may take minutes.
type piece struct {
	r                 *runner
	sample            float64 // work of a sample through a network
	mu                sync.Mutex
	remaining, untold float64
}

// tellAt is the smallest reported amount of work, some milliseconds of a core.
const tellAt = 1

// open opens an engine whose samples count for the job.
func (p *piece) open(net *reservoir.Network, slots int) (reservoir.Engine, error) {
	e, err := p.r.NewEngine(net, slots)
	if err != nil {
		return nil, err
	}
	return counted{e, p}, nil
}

// counted is an engine that reports its progress.
type counted struct {
	reservoir.Engine
	piece *piece
}

func (c counted) Advance(inputs []float32, runs []reservoir.Run, scores []float32) error {
	err := c.Engine.Advance(inputs, runs, scores)
	if err == nil {
		samples := 0
		for i := range runs {
			samples += int(runs[i].To - runs[i].From)
		}
		c.piece.report(float64(samples) * c.piece.sample)
	}
	return err
}

// report subtracts work from the remaining work of the piece.
func (p *piece) report(work float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	work = min(work, p.remaining)
	p.remaining -= work
	if p.untold += work; p.untold >= tellAt {
		p.r.advance(p.untold)
		p.untold = 0
	}
}

// reportRest reports the remaining work.
func (p *piece) reportRest() { p.r.advance(p.remaining + p.untold) }

// advance reports finished work.
func (r *runner) advance(work float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done += work
	if r.Progress != nil {
		r.Progress(int64(r.done), int64(max(r.done, r.total)), "gigaflops of trials and draws")
	}
}

// addExpected corrects the total expected work.
func (r *runner) addExpected(more float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total += more
}

// phase is the trials, or the draws, of a model on a data set.
type phase struct {
	dataset, model string
	draws          bool
}

// setPlan records the expected work of a phase, in place of the previously recorded work.
func (r *runner) setPlan(p phase, work float64) {
	r.addExpected(work - r.planned[p])
	r.planned[p] = work
}

// sumWork returns the work of all jobs.
func sumWork(jobs []job) (work float64) {
	for _, j := range jobs {
		work += j.work
	}
	return work
}
