package paper

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/energy"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// Options configure a run. No result depends on the engines or threads.
type Options struct {
	offline.EngineOptions
	Plan
	// Origin, if set, is recorded before the first result.
	Origin *Origin
	// Energy are the machine's counters, if present; Idle, then more than 0, is the
	// duration of the measurement of the power at rest before the first trial.
	Energy energy.Accounts
	Idle   time.Duration
	// Command, if set, is the command line that reproduces a cell.
	Command  func(Cell) string
	Progress archive.Progress
}

// Run runs every model on every data set, stores each result at once and skips stored
// results. It returns the cells in the order of sets and models. After an error or a
// canceled context the stored results remain valid.
func Run(ctx context.Context, sets []*archive.Dataset, opt Options, st *Store) ([]Cell, error) {
	if err := Check(sets, opt.Plan, st.settings); err != nil {
		return nil, err
	}
	return newRunner(opt, st).runSets(ctx, sets)
}

// sameResult reports whether two cells hold the same result, except for times.
func sameResult(a, b *Cell) bool {
	return a.Configurations == b.Configurations && a.Draws == b.Draws && a.Training == b.Training && a.Missing == b.Missing && a.Accuracy == b.Accuracy
}

func (r *runner) runSets(ctx context.Context, sets []*archive.Dataset) (cells []Cell, err error) {
	for _, d := range sets {
		for _, m := range r.Models {
			r.planModel(d, m)
		}
	}
	r.advance(0) // the time counts from here
	for _, d := range sets {
		if err := r.beginData(describe(d)); err != nil {
			return nil, err
		}
		bench := r.runPaper
		if r.settings.Protocol.isFixed() {
			bench = r.runBanks
		}
		if err := bench(ctx, d); err != nil {
			return nil, err
		}
		for _, m := range r.Models {
			c, err := r.cell(d.Name, m)
			if err != nil {
				return nil, err
			}
			if have, done := r.cells[key{d.Name, m, 0}]; !done || !sameResult(&have, &c) {
				if err := r.writeRecord(record{Cell: &c}); err != nil {
					return nil, err
				}
			}
			cells = append(cells, c)
		}
	}
	return cells, nil
}

// cell summarizes the stored results of a model on a data set.
func (r *runner) cell(dataset, model string) (Cell, error) {
	plan := r.Plan
	if isTrained(model) {
		if plan.Configurations = r.countFinished(dataset, model); plan.Configurations == 0 {
			return Cell{Dataset: dataset, Model: model, Missing: r.tooLittle()}, nil
		}
	}
	c, err := r.Store.cell(dataset, model, plan)
	if err != nil {
		return c, err
	}
	if isTrained(model) { // including interrupted trials
		spent := r.spent(dataset, model)
		c.Searched, c.SearchEnergy = spent.seconds, spent.energy
	}
	if r.Options.Command != nil {
		c.Command = r.Options.Command(c)
	}
	return c, nil
}

// Check reports errors that would prevent Run, before any work.
func Check(sets []*archive.Dataset, plan Plan, s Settings) error {
	if err := plan.Validate(s); err != nil {
		return err
	}
	return checkSets(sets, func(d *archive.Dataset) error { return checkData(d, s.Protocol) })
}

// checkSets requires valid sets, each once.
func checkSets(sets []*archive.Dataset, good func(*archive.Dataset) error) error {
	if len(sets) == 0 {
		return errors.New("bench: no data sets, want at least one")
	}
	seen := map[string]bool{}
	for _, d := range sets {
		if seen[d.Name] {
			return fmt.Errorf("bench: data set %q is listed twice", d.Name)
		}
		seen[d.Name] = true
		if err := good(d); err != nil {
			return err
		}
	}
	return nil
}

// runner is the state of a call of Run.
type runner struct {
	Options
	*Store
	mu          sync.Mutex
	done, total float64           // work
	planned     map[phase]float64 // of the total, by phase
	searches    map[phase]bool    // of trained models, not started
	pace        pace              // of their trials

	rested sync.Once // the power at rest is known
	unrest error     // error while recording it
}

func newRunner(opt Options, st *Store) *runner {
	if opt.Threads < 1 {
		opt.Threads = runtime.GOMAXPROCS(0)
	}
	if opt.NewEngine == nil {
		opt.NewEngine = func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
			return cpu.New(net, slots, cpu.Options{Threads: 1})
		}
	}
	st.origin = opt.Origin
	return &runner{Options: opt, Store: st, planned: map[phase]float64{}, searches: map[phase]bool{}}
}

// runPaper runs the models of the paper on a data set: all searches of reservoirs at
// once, then all draws, then trained models one after the other. If energy is measured,
// reservoirs run in turn as well: a counter cannot separate two models that run at the
// same time.
func (r *runner) runPaper(ctx context.Context, d *archive.Dataset) error {
	p, err := newProblem(d, r.settings.Protocol == PaperExact)
	if err != nil {
		return err
	}
	together := slices.DeleteFunc(slices.Clone(r.Models), isTrained)
	groups := [][]string{together}
	if r.isMetered() {
		groups = slices.Collect(slices.Chunk(together, 1))
	}
	for _, models := range groups {
		for _, phase := range []func(*problem, string) ([]job, error){r.trialJobs, r.drawJobs} {
			var jobs []job
			for _, m := range models {
				more, err := phase(p, m)
				if err != nil {
					return err
				}
				jobs = append(jobs, more...)
			}
			if err := r.runAll(ctx, jobs); err != nil {
				return err
			}
		}
	}
	for _, m := range r.Models {
		if isTrained(m) {
			if err := r.train(ctx, p, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// trialJobs are the untried configurations.
func (r *runner) trialJobs(p *problem, model string) ([]job, error) {
	var jobs []job
	for i, c := range r.settings.configurations(model)[:r.Configurations] {
		if _, ok := r.trials[key{p.name, model, i}]; ok {
			continue
		}
		c.Seed = r.settings.trialSeed(i)
		jobs = append(jobs, r.newJob(p, model, c, r.settings.search(p), func(ctx context.Context, open openEngine) error {
			o, took, err := measure(ctx, r, func() (outcome, error) {
				return p.assess(ctx, specs(model, p.channels, c), open, r.settings.search(p))
			})
			if err != nil {
				return fmt.Errorf("data set %q, %s, configuration %d: %w", p.name, model, i, err)
			}
			return r.writeRecord(record{Trial: &Trial{
				Dataset: p.name, Model: model, Index: i, Config: c, Alpha: o.alpha,
				Validation: Share{o.correct, len(p.validation)}, Seconds: took.seconds, Energy: took.energy,
			}})
		}))
	}
	r.setPlan(phase{p.name, model, false}, sumWork(jobs))
	return jobs, nil
}

// drawJobs are the missing draws of the chosen configuration.
func (r *runner) drawJobs(p *problem, model string) ([]job, error) {
	chosen, err := r.choose(p.name, model, r.Configurations)
	if err != nil {
		return nil, err
	}
	var jobs []job
	a := r.settings.final(p)
	for i := range r.Draws {
		c := chosen.Config
		c.Seed = r.settings.drawSeed(i)
		if r.draws[key{p.name, model, i}].Config == c {
			continue // false if a longer search chose another configuration
		}
		jobs = append(jobs, r.newJob(p, model, c, a, func(ctx context.Context, open openEngine) error {
			o, took, err := measure(ctx, r, func() (outcome, error) {
				return p.assess(ctx, specs(model, p.channels, c), open, a)
			})
			if err != nil {
				return fmt.Errorf("data set %q, %s, draw %d: %w", p.name, model, i, err)
			}
			return r.writeRecord(record{Draw: &Draw{
				Dataset: p.name, Model: model, Index: i, Config: c, Alpha: o.alpha, Parameters: o.parameters,
				Learned: len(a.learn), Test: Share{o.correct, len(a.ask)}, Seconds: took.seconds, Energy: took.energy,
				Predicted: storable(o.predicted),
			}})
		}))
	}
	r.setPlan(phase{p.name, model, true}, sumWork(jobs))
	return jobs, nil
}

// newJob returns the job of assessing a network.
func (r *runner) newJob(p *problem, model string, c Scales, a assessment, do func(context.Context, openEngine) error) job {
	samples := p.samples(a.learn) + p.samples(a.ask)
	all := r.settings.work(model, p.channels, c, samples, len(a.learn))
	return job{all, all / float64(max(1, samples*max(1, c.Layers))), do}
}

// runBanks runs the banks on a data set.
func (r *runner) runBanks(ctx context.Context, d *archive.Dataset) error {
	for _, m := range r.Models {
		if err := r.runBank(ctx, d, m); err != nil {
			return err
		}
	}
	return nil
}

// runBank runs a bank on a data set, one draw after the other on all threads.
func (r *runner) runBank(ctx context.Context, d *archive.Dataset, model string) error {
	opt := bankOptions(model, d)
	for i := range r.Draws {
		if r.isDrawn(d, model, i) {
			continue
		}
		opt.Spec.Seed = r.settings.trialSeed(i)
		var m *reservoir.Model
		var report offline.RetrainReport
		one := &piece{r: r, remaining: bankWork(d, opt.Spec), sample: bankSteps(opt.Spec, 1)}
		opt.EngineOptions = offline.EngineOptions{Threads: r.Threads, NewEngine: one.open}
		ev, took, err := measure(ctx, r, func() (_ *offline.Evaluation, err error) {
			m, report, err = offline.Retrain(ctx, d, opt, nil)
			if err != nil {
				return nil, err
			}
			return offline.Evaluate(ctx, m, d, offline.EvaluateOptions{EngineOptions: opt.EngineOptions}, nil)
		})
		if err != nil {
			return err
		}
		linear, kind := m.Readouts[0], "ridge"
		if report.Readout.Discriminant {
			kind = "discriminant"
		}
		leftOut, _ := report.Readout.LeftOut()
		if err := r.writeRecord(record{Draw: &Draw{
			Dataset: d.Name, Model: model, Index: i, Config: Scales{Units: opt.Spec.Units, Seed: opt.Spec.Seed},
			Alpha: report.Readout.Alpha, Recipe: r.recipe(d, model), Readout: kind, LeftOut: leftOut, Parameters: linear.Columns() * (linear.Features() + 1), Learned: report.Series,
			Test: Share{ev.Correct, ev.Labeled}, Seconds: took.seconds, Energy: took.energy,
			Predicted: storable(bankClasses(d, ev)),
		}}); err != nil {
			return err
		}
		one.reportRest()
	}
	return nil
}

// recipe returns the recipe that draws of a bank record; protocol Bank has a version in
// its settings instead.
func (r *runner) recipe(d *archive.Dataset, model string) string {
	if r.settings.Protocol == Bank {
		return ""
	}
	return recipeOf(bankOptions(model, d))
}

// isDrawn reports whether a draw of a bank exists, with the current recipe.
func (r *runner) isDrawn(d *archive.Dataset, model string, i int) bool {
	have, ok := r.draws[key{d.Name, model, i}]
	return ok && have.Recipe == r.recipe(d, model)
}
