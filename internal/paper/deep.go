package paper

import (
	"context"
	"slices"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// specs are the networks of a model of the paper: one, or the layers of a DeepESN. The
// layers have the same scales and floor(Units/Layers) units each; the first layer also
// has the remaining units. Layer l is drawn with seed Seed + l*2^32, so that the first
// layer of a DeepESN is the ESN of its seed.
func specs(model string, channels int, c Scales) []reservoir.Spec {
	if model != DeepESN {
		return []reservoir.Spec{c.spec(channels, reservoir.Kind(model))}
	}
	each := c.Units / c.Layers
	units := c.Units - each*(c.Layers-1)
	layers := make([]reservoir.Spec, c.Layers)
	for l := range layers {
		of := c
		of.Units, of.Seed = units, c.Seed+uint64(l)<<32
		layers[l] = of.spec(channels, reservoir.ESN)
		channels, units = units, each
	}
	return layers
}

// countStates returns the number of states of all networks.
func countStates(specs []reservoir.Spec) (n int) {
	for _, s := range specs {
		n += s.Units
	}
	return n
}

// assessDeep is assess for networks in layers.
func (p *problem) assessDeep(ctx context.Context, specs []reservoir.Spec, open openEngine, a assessment) (o outcome, err error) {
	series := slices.Concat(a.learn, a.ask)
	f := countStates(specs)
	features := make([]float32, len(series)*f)
	lead := p.leads(series)
	err = p.walk(ctx, specs, open, series, lead, func(t int, live []int, states []float32) error {
		for n, k := range live {
			if i := series[k]; t == p.to[i]-p.from[i]-lead[k]-1 {
				copy(features[k*f:(k+1)*f], states[n*f:])
			}
		}
		return nil
	})
	if err != nil {
		return o, err
	}
	linear, o, err := p.fitReadout(ctx, features[:len(a.learn)*f], a)
	if err != nil {
		return o, err
	}
	scores := make([]float32, linear.Columns())
	for n := range a.ask {
		k := len(a.learn) + n
		linear.Scores(scores, features[k*f:(k+1)*f])
		o.predicted = append(o.predicted, linear.Class(scores))
	}
	o.correct = p.countCorrect(a.ask, o.predicted)
	return o, nil
}
