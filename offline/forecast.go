package offline

import (
	"sync"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// forecast computes the progress of a training, as a share of its time and not as counts. Running samples through a
// network, adding features to a learner, and solving take their time in a ratio that depends on the network and the
// machine. The ratio is measured: products before the work begins, samples until the first features are added. Safe
// for concurrent use.
type forecast struct {
	progress archive.Progress
	plan     fit.Plan
	samples  int64   // to run, in all passes
	points   int     // to add
	product  float64 // seconds of a multiply-add in a product, on all cores
	start    time.Time

	mu     sync.Mutex
	before int64   // run in the passes before
	run    int64   // run in all
	sample float64 // seconds of a sample, on all cores; 0 while unknown
	add    int
	solved float64 // share
}

func newForecast(progress archive.Progress, plan fit.Plan, samples int64, points int) *forecast {
	f := &forecast{progress: progress, plan: plan, samples: samples, points: points, start: time.Now()}
	if progress != nil {
		f.product = 1 / fit.ProductRate()
		f.start = time.Now()
	}
	return f
}

// The parts of the work report their progress.

func (f *forecast) ran(samples int64) {
	f.mu.Lock()
	f.run = f.before + samples
	f.mu.Unlock()
	f.report()
}

// passed is called at the end of a pass.
func (f *forecast) passed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = f.run
}

// adding is called before the first features are added.
func (f *forecast) adding() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sample == 0 && f.run > 0 {
		f.sample = time.Since(f.start).Seconds() / float64(f.run)
	}
}

func (f *forecast) added(n int) {
	f.mu.Lock()
	f.add += n
	f.mu.Unlock()
	f.report()
}

func (f *forecast) solving(done float64) {
	f.adding() // if features are kept, nothing was added
	f.mu.Lock()
	f.solved = done
	f.mu.Unlock()
	f.report()
}

// share is how much of the time the work takes has passed, 0 to 1.
func (f *forecast) share() float64 {
	sample := f.sample
	if sample == 0 && f.run > 0 {
		sample = time.Since(f.start).Seconds() / float64(f.run)
	}
	if sample == 0 {
		return 0
	}
	total := float64(f.samples)*sample + (float64(f.points)*f.plan.AddWork+f.plan.SolveWork)*f.product
	done := float64(f.run)*sample + (float64(f.add)*f.plan.AddWork+f.solved*f.plan.SolveWork)*f.product
	return min(1, done/total)
}

// report reports the share in percent.
func (f *forecast) report() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.progress.Report(int64(100*f.share()), 100, "percent of the training")
}
