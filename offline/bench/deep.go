package bench

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// specs are the networks of a model of the paper: one, or the layers of a
// DeepESN. These have the same scales and floor(Units/Layers) units each; the
// first has those left over as well. Layer l is drawn with seed Seed + l*2^32,
// so that a DeepESN's first layer is the ESN of its seed.
func specs(model string, channels int, c offline.PaperScales) []reservoir.Spec {
	if model != DeepESN {
		return []reservoir.Spec{offline.PaperNetwork(channels, reservoir.Kind(model), c)}
	}
	each := c.Units / c.Layers
	units := c.Units - each*(c.Layers-1)
	layers := make([]reservoir.Spec, c.Layers)
	for l := range layers {
		of := c
		of.Units, of.Seed = units, c.Seed+uint64(l)<<32
		layers[l] = offline.PaperNetwork(channels, reservoir.ESN, of)
		channels, units = units, each
	}
	return layers
}

// width is how many states networks have together.
func width(specs []reservoir.Spec) (n int) {
	for _, s := range specs {
		n += s.Units
	}
	return n
}

// assessDeep is assess for networks in layers.
func (p *problem) assessDeep(ctx context.Context, specs []reservoir.Spec, open openEngine, a assessment) (o outcome, err error) {
	series := slices.Concat(a.learn, a.ask)
	f := width(specs)
	features := make([]float32, len(series)*f)
	err = p.walk(ctx, specs, open, series, func(t int, live []int, states []float32) error {
		for n, k := range live {
			if i := series[k]; t == p.to[i]-p.from[i]-1 {
				copy(features[k*f:(k+1)*f], states[n*f:])
			}
		}
		return nil
	})
	if err != nil {
		return o, err
	}
	head, o, err := p.fitHead(ctx, features[:len(a.learn)*f], a)
	if err != nil {
		return o, err
	}
	scores := make([]float32, head.Columns())
	for n := range a.ask {
		k := len(a.learn) + n
		head.Scores(scores, features[k*f:(k+1)*f])
		o.predicted = append(o.predicted, head.Class(scores))
	}
	o.correct = p.count(a.ask, o.predicted)
	return o, nil
}

// walkSeries is how many series walk side by side: whole tiles of every vector
// engine, and few enough for their states to stay in cache.
const walkSeries = 64

// walk takes the listed series through networks in layers, a sample at a time:
// each layer's input is the state that the one before has reached at the same
// sample, the first one's the series itself. After each sample it calls take
// with the number of samples before it, the positions in the list of the series
// that have it, and their states, a row each, layer after layer. Positions come
// in the same order whatever the engine; live and states are walk's.
func (p *problem) walk(ctx context.Context, specs []reservoir.Spec, open openEngine, series []int, take func(t int, live []int, states []float32) error) (err error) {
	engines := make([]reservoir.Engine, 0, len(specs))
	defer func() {
		for _, e := range engines {
			err = errors.Join(err, e.Close())
		}
	}()
	for _, s := range specs {
		net, err := reservoir.Draw(s)
		if err != nil {
			return err
		}
		e, err := open(net, min(walkSeries, len(series)))
		if err != nil {
			return err
		}
		engines = append(engines, e)
	}

	length := func(k int) int { return p.to[series[k]] - p.from[series[k]] }
	order := make([]int, len(series))
	for k := range order {
		order[k] = k
	}
	// Those of a block end together, so that its tiles stay full.
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(length(b), length(a)) })

	total := width(specs)
	states := make([]float32, walkSeries*total)
	var inputs []float32
	runs := make([]reservoir.Run, 0, walkSeries)
	for live := range slices.Chunk(order, walkSeries) {
		for t := range length(live[0]) {
			if err := ctx.Err(); err != nil {
				return err
			}
			for length(live[len(live)-1]) <= t {
				live = live[:len(live)-1]
			}
			runs, inputs = runs[:0], inputs[:0]
			for n, k := range live {
				runs = append(runs, reservoir.Run{Slot: int32(n), Reset: t == 0, From: int32(n), To: int32(n + 1)})
				row := (p.from[series[k]] + t) * p.channels
				inputs = append(inputs, p.inputs[row:row+p.channels]...)
			}
			at := 0 // of the layer's states in a row
			for l, e := range engines {
				if err := e.Advance(inputs, runs, nil); err != nil {
					return err
				}
				units := specs[l].Units
				inputs = inputs[:0]
				for n := range live {
					h := states[n*total+at:][:units]
					if err := e.Features(n, h); err != nil {
						return err
					}
					inputs = append(inputs, h...)
				}
				at += units
			}
			if err := take(t, live, states[:len(live)*total]); err != nil {
				return err
			}
		}
	}
	return nil
}
