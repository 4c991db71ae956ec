package bench

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Modelling is the settings' protocol of the journal version's one-step-ahead
// modelling, which Model runs.
const Modelling Protocol = "modelling"

// Settings of the published modelling: units of every network, trials of every
// search, and the regularisation.
const (
	modellingUnits             = 200
	MaxModellingConfigurations = 100
	modellingAlpha             = 1
)

// ModellingModels are the models of Model, in the order of tables.
var ModellingModels = slices.Concat(PaperModels, []string{DeepESN})

// ModellingPlan is what the journal version does.
func ModellingPlan() Plan {
	return Plan{Models: ModellingModels, Configurations: MaxModellingConfigurations, Draws: 10}
}

// fed names a model whose readout sees the input, too, in trials and draws.
func fed(model string) string { return model + "+input" }

// ModellingConfigurations is the list of 100 random configurations for one
// model, whose readout sees the input or does not. Those of ESN and EuSN are
// the published ones: one stream of NumPy's legacy generator for each data set,
// ESN before EuSN, with input before without. The lists of R-ESN and DeepESN,
// which the published program does not model with, continue it.
func ModellingConfigurations(model string, input bool) []Scales {
	rng := newRandomState(searchSeed)
	d := scaleDraws{rng, func() int { return modellingUnits }, func() float64 { return float64(3*rng.randint(1, 5)) / 10 }}
	for _, m := range []reservoir.Kind{reservoir.ESN, reservoir.EuSN, reservoir.RESN, DeepESN} {
		for _, with := range []bool{true, false} {
			if list := d.list(string(m), MaxModellingConfigurations); string(m) == model && with == input {
				return list
			}
		}
	}
	return nil
}

// rmse learns from some series to predict the next sample from the states, and
// where input is set from the sample, too; it gives the root of the mean squared
// error over all samples but the first of those asked about. Series must have
// one channel and two samples or more.
func (p *problem) rmse(ctx context.Context, specs []reservoir.Spec, open openEngine, input bool, learn, ask []int) (float64, error) {
	features := width(specs)
	row := make([]float32, features+1)
	if input {
		features++
	}
	// each calls do for every sample that has a next one.
	each := func(series []int, do func(features []float32, next float32)) error {
		return p.walk(ctx, specs, open, series, nil, func(t int, live []int, states []float32) error {
			for n, k := range live {
				at := p.from[series[k]] + t
				if at+1 == p.to[series[k]] {
					continue
				}
				row[copy(row, states[n*width(specs):][:width(specs)])] = p.inputs[at]
				do(row[:features], p.inputs[at+1])
			}
			return nil
		})
	}
	m := newMoments(features)
	if err := each(learn, m.add); err != nil {
		return 0, err
	}
	r, err := m.solve(ctx, modellingAlpha)
	if err != nil {
		return 0, err
	}
	var sum, count float64
	err = each(ask, func(features []float32, next float32) {
		e := r.predict(features) - float64(next)
		sum += float64(e * e)
		count++
	})
	return math.Sqrt(sum / count), err
}

// repeating is the rmse of saying that the next sample is as this one.
func (p *problem) repeating(ask []int) float64 {
	var sum, count float64
	for _, i := range ask {
		for at := p.from[i]; at+1 < p.to[i]; at++ {
			e := float64(p.inputs[at+1]) - float64(p.inputs[at])
			sum += float64(e * e)
			count++
		}
	}
	return math.Sqrt(sum / count)
}

// newModellingProblem lays d out, which must pass checkModelling. Its training
// part is divided as that of the paper's protocols, which is how the published
// program divides it. Where classes do not allow that, or series have none, all
// count as of one.
func newModellingProblem(d *offline.Dataset) (*problem, error) {
	if !slices.ContainsFunc(d.Series, func(s offline.Series) bool { return s.Label < 0 }) {
		if p, err := newProblem(d, false); err == nil && len(p.train)+len(p.test) == len(d.Series) {
			return p, nil
		}
	}
	one := *d
	one.Classes, one.Series = []string{"any"}, slices.Clone(d.Series)
	for i := range one.Series {
		one.Series[i].Label = 0
	}
	return newProblem(&one, false)
}

// checkModelling reports what keeps d from being modelled, before any work.
func checkModelling(d *offline.Dataset) error {
	if err := d.Validate(); err != nil {
		return err
	}
	if len(d.Channels) != 1 {
		return fmt.Errorf("bench: data set %q has %d channels, one-step-ahead modelling wants one", d.Name, len(d.Channels))
	}
	for i := range d.Series {
		if d.Len(i) < 2 {
			return fmt.Errorf("bench: data set %q: series %q has one sample, and so no next one to predict: take it out before the import", d.Name, d.Series[i].ID)
		}
	}
	if train, test := len(d.Part(offline.Train)), len(d.Part(offline.Test)); train < 2 || test < 1 {
		return fmt.Errorf("bench: data set %q has %d training and %d test series, want at least 2 and 1", d.Name, train, test)
	}
	if err := refuse(d, func(v float32) bool { return v != v }, "missing, and cannot be predicted: fill it before the import"); err != nil {
		return err
	}
	return checkRange(d)
}
