package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/dense"
	"github.com/eusn-stream/eusn-stream/offline"
)

// ModelOptions say how to model. No result depends on the engines or threads.
type ModelOptions struct {
	offline.EngineOptions
	Plan
	// Command, where set, is the command line that reproduces one result.
	Command  func(Modelled) string
	Progress offline.Progress
	Origin   *Origin // noted with the results, if set
}

// Model searches and draws every model, with and without the input to its
// readout, on every data set, as Run does for classes: what is finished is
// stored at once and not done again. The store's protocol must be Modelling.
func Model(ctx context.Context, sets []*offline.Dataset, opt ModelOptions, st *Store) ([]Modelled, error) {
	if st.settings.Protocol != Modelling {
		return nil, fmt.Errorf("bench: %s holds results of protocol %s, want %s", st.path, st.settings.Protocol, Modelling)
	}
	if err := CheckModelling(sets, opt.Plan); err != nil {
		return nil, err
	}
	r := newRunner(Options{EngineOptions: opt.EngineOptions, Plan: opt.Plan, Progress: opt.Progress, Origin: opt.Origin}, st)
	return r.model(ctx, sets, opt.Command)
}

func (r *runner) model(ctx context.Context, sets []*offline.Dataset, command func(Modelled) string) ([]Modelled, error) {
	var problems []*problem
	for _, d := range sets {
		p, err := newModellingProblem(d)
		if err != nil {
			return nil, err
		}
		problems = append(problems, p)
		for _, m := range r.toModel(p) {
			r.expectedModelling(p, m)
		}
	}
	r.advance(0) // the time counts from here
	var all []Modelled
	for i, p := range problems {
		data := describe(sets[i])
		data.Series, data.Asked, data.Unknown, data.Truth = len(p.train), len(p.test), 0, nil // classes do not matter
		if err := r.begin(data); err != nil {
			return nil, err
		}
		cells := r.toModel(p)
		var trials, draws []job
		for _, m := range cells {
			trials = append(trials, r.modellingTrials(p, m)...)
		}
		if err := r.all(ctx, trials); err != nil {
			return nil, err
		}
		for k := range cells {
			if err := r.chooseModelled(&cells[k]); err != nil {
				return nil, err
			}
			draws = append(draws, r.modellingDraws(p, cells[k])...)
		}
		if err := r.all(ctx, draws); err != nil {
			return nil, err
		}
		for _, m := range cells {
			r.sumUp(&m)
			if m.Repeating = p.repeating(p.test); command != nil {
				m.Command = command(m)
			}
			if r.modelled[key{m.Dataset, m.name(), 0}] != m {
				if err := r.write(record{Modelled: &m}); err != nil {
					return nil, err
				}
			}
			all = append(all, m)
		}
	}
	return all, nil
}

// CheckModelling reports what would keep Model from its work.
func CheckModelling(sets []*offline.Dataset, plan Plan) error {
	if err := plan.ValidateModelling(); err != nil {
		return err
	}
	return checkSets(sets, checkModelling)
}

// ValidateModelling reports what is wrong with a plan for Model.
func (p Plan) ValidateModelling() error {
	return p.validate(Modelling, ModellingModels, 1, MaxModellingConfigurations)
}

// toModel lists what is to be done with a data set.
func (r *runner) toModel(p *problem) (list []Modelled) {
	for _, m := range r.Models {
		for _, input := range []bool{false, true} {
			list = append(list, Modelled{Dataset: p.name, Model: m, Input: input, Configurations: r.Configurations, Draws: r.Draws})
		}
	}
	return list
}

// modellingJob is one rmse.
func (p *problem) modellingJob(model string, c Scales, learn, ask []int, do func(context.Context, openEngine) error) job {
	all := modellingWork(model, c, p.rows(learn), p.rows(ask))
	return job{all, all / float64((p.rows(learn)+p.rows(ask))*max(1, c.Layers)), do}
}

// modellingTrials are the configurations not tried yet.
func (r *runner) modellingTrials(p *problem, m Modelled) []job {
	var jobs []job
	for i, c := range ModellingConfigurations(m.Model, m.Input)[:r.Configurations] {
		if _, ok := r.trials[key{p.name, m.name(), i}]; ok {
			continue
		}
		c.Seed = r.settings.trialSeed(i)
		jobs = append(jobs, p.modellingJob(m.Model, c, p.fit, p.validation, func(ctx context.Context, open openEngine) error {
			e, took, err := measured(ctx, r, func() (float64, error) {
				return p.rmse(ctx, specs(m.Model, p.channels, c), open, m.Input, p.fit, p.validation)
			})
			singular := errors.Is(err, dense.ErrSingular)
			if err != nil && !singular {
				return fmt.Errorf("data set %q, %s, configuration %d: %w", p.name, m.name(), i, err)
			}
			return r.write(record{Trial: &Trial{
				Dataset: p.name, Model: m.name(), Index: i, Config: c, Alpha: modellingAlpha, RMSE: e, Singular: singular, Seconds: took.seconds,
			}})
		}))
	}
	return jobs
}

// expectedModelling plans the work that a model on a data set still takes, about.
func (r *runner) expectedModelling(p *problem, m Modelled) {
	r.plan(phase{p.name, m.name(), false}, total(r.modellingTrials(p, m)))
	draws := 0.0
	for i := range r.Draws {
		if _, ok := r.draws[key{p.name, m.name(), i}]; !ok {
			draws += modellingWork(m.Model, Scales{Units: modellingUnits, Layers: 2}, p.rows(p.train), p.rows(p.test))
		}
	}
	r.plan(phase{p.name, m.name(), true}, draws)
}

// modellingDraws are the drawings of the chosen configuration not done yet.
func (r *runner) modellingDraws(p *problem, m Modelled) []job {
	var jobs []job
	for i := range r.Draws {
		c := m.Config
		c.Seed = r.settings.drawSeed(i)
		if r.draws[key{p.name, m.name(), i}].Config == c {
			continue // not so if a longer search chose another configuration
		}
		jobs = append(jobs, p.modellingJob(m.Model, c, p.train, p.test, func(ctx context.Context, open openEngine) error {
			e, took, err := measured(ctx, r, func() (float64, error) {
				return p.rmse(ctx, specs(m.Model, p.channels, c), open, m.Input, p.train, p.test)
			})
			if err != nil {
				return fmt.Errorf("data set %q, %s, draw %d: %w", p.name, m.name(), i, err)
			}
			parameters := c.Units + 1
			if m.Input {
				parameters++
			}
			return r.write(record{Draw: &Draw{
				Dataset: p.name, Model: m.name(), Index: i, Config: c, Alpha: modellingAlpha, Parameters: parameters,
				Learnt: len(p.train), RMSE: e, Seconds: took.seconds,
			}})
		}))
	}
	r.plan(phase{p.name, m.name(), true}, total(jobs))
	return jobs
}
