package paper

import (
	"context"
	"errors"
	"slices"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// callValues bounds the samples of one engine call, which is how long a
// cancelled job is still waited for.
const callValues = 1 << 19

// assessment says which series a readout learns from and which it is asked about.
type assessment struct {
	learn, ask  []int // series of the problem
	alphas      []float64
	standardise bool
}

// outcome is what one network achieved.
type outcome struct {
	predicted  []int // class of each asked series
	correct    int   // of them
	alpha      float64
	parameters int // of the readout
}

// openEngine opens an engine of that many slots.
type openEngine func(net *reservoir.Network, slots int) (reservoir.Engine, error)

// assess draws a network, or several as layers, runs the series through it
// once, fits a readout to the states at the ends of those to learn from and counts
// the right classes among the others. It uses one thread but for the readout's
// matrix products, and gives the same for every engine.
func (p *problem) assess(ctx context.Context, specs []reservoir.Spec, open openEngine, a assessment) (o outcome, err error) {
	if len(specs) > 1 {
		return p.assessDeep(ctx, specs, open, a)
	}
	net, err := reservoir.Draw(specs[0])
	if err != nil {
		return o, err
	}
	series := slices.Concat(a.learn, a.ask)
	e, err := open(net, len(series)+1) // the last slot makes the shared beginnings
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if err := p.run(ctx, e, series); err != nil {
		return o, err
	}

	f := specs[0].FeatureCount()
	features := make([]float32, len(a.learn)*f)
	for k := range a.learn {
		if err := e.Features(int32(k), features[k*f:(k+1)*f]); err != nil {
			return o, err
		}
	}
	linear, o, err := p.fitReadout(ctx, features, a)
	if err != nil {
		return o, err
	}
	if o.predicted, err = p.predict(e, linear, a); err != nil {
		return o, err
	}
	o.correct = p.count(a.ask, o.predicted)
	return o, nil
}

// fitReadout fits a readout to the features of each series to learn from.
func (p *problem) fitReadout(ctx context.Context, features []float32, a assessment) (*readout.Linear, outcome, error) {
	labels := make([]int, len(a.learn))
	for k, i := range a.learn {
		labels[k] = p.label[i]
	}
	linear, report, err := readout.Fit(ctx, features, labels, p.classes, readout.Options{Alphas: a.alphas, Standardise: a.standardise})
	if errors.Is(err, readout.ErrConstant) { // every series saturates the reservoir: a bad configuration, no end of the search
		linear, err = majority(p.classes, labels, len(features)/len(labels)), nil
		report.Alpha = a.alphas[0]
	}
	if err != nil {
		return nil, outcome{}, err
	}
	return linear, outcome{alpha: report.Alpha, parameters: linear.Columns() * (linear.Features() + 1)}, nil
}

// majority is the readout of a ridge where no feature says anything: it answers with
// the class that has most series, the first of equals.
func majority(classes []string, labels []int, features int) *readout.Linear {
	h := &readout.Linear{Classes: classes, Center: make([]float32, features)}
	h.Intercept = make([]float32, h.Columns())
	h.Weights = make([]float32, h.Columns()*features)
	for c := range h.Intercept {
		class := c
		if len(classes) == 2 {
			class = 1
		}
		for _, l := range labels {
			if l == class {
				h.Intercept[c]++
			}
		}
		h.Intercept[c] = 2*h.Intercept[c]/float32(len(labels)) - 1
	}
	return h
}

// predict asks the readout about the states in the engine's slots.
func (p *problem) predict(e reservoir.Engine, linear *readout.Linear, a assessment) ([]int, error) {
	if err := e.SetReadouts([]*readout.Linear{linear}); err != nil {
		return nil, err
	}
	runs := make([]reservoir.Run, len(a.ask))
	for k := range runs {
		runs[k] = reservoir.Run{Slot: int32(len(a.learn) + k), Emit: true} // no samples: the state as it is
	}
	width := e.ScoreWidth()
	scores := make([]float32, len(runs)*width)
	if err := e.Advance(nil, runs, scores); err != nil {
		return nil, err
	}
	predicted := make([]int, len(a.ask))
	for k := range predicted {
		predicted[k] = linear.Class(scores[k*width : (k+1)*width])
	}
	return predicted, nil
}

// count is how many of the listed series are of the predicted class.
func (p *problem) count(series, predicted []int) (correct int) {
	for k, i := range series {
		if predicted[k] == p.label[i] {
			correct++
		}
	}
	return correct
}

// run brings slot k to the end of series[k].
//
// Series that begin with the same samples share their states until they part.
// One sample repeated is the common case, see beginnings: it is run once, and
// every series starts at its first other sample from a copy of the state there.
// The bits are the same.
func (p *problem) run(ctx context.Context, e reservoir.Engine, series []int) error {
	skip := p.shares(series)
	if skip {
		if err := p.begin(e, series); err != nil {
			return err
		}
	}
	// Calls take series that lie together; the order of the slots is free.
	order := make([]int, len(series))
	for k := range order {
		order[k] = k
	}
	slices.SortFunc(order, func(a, b int) int { return series[a] - series[b] })
	var runs []reservoir.Run
	for len(order) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		base, n := p.from[series[order[0]]], 0
		runs = runs[:0]
		for n < len(order) && (n == 0 || (p.to[series[order[n]]]-base)*p.channels <= callValues) {
			k := order[n]
			i := series[k]
			r := reservoir.Run{Slot: int32(k), Reset: true, From: int32(p.from[i] - base), To: int32(p.to[i] - base)}
			if skip && p.lead[i] > 0 {
				r.Reset, r.From = false, r.From+int32(p.lead[i])
			}
			runs = append(runs, r)
			n++
		}
		end := p.to[series[order[n-1]]]
		if err := e.Advance(p.inputs[base*p.channels:end*p.channels], runs, nil); err != nil {
			return err
		}
		order = order[n:]
	}
	return nil
}

// shares reports whether running the shared beginning once is worth it: a stream
// alone costs about as much as eight in a tile.
func (p *problem) shares(series []int) bool {
	sum, longest := 0, 0
	for _, i := range series {
		sum += p.lead[i]
		longest = max(longest, p.lead[i])
	}
	return sum > 16*longest
}

// begin puts every slot whose series has the shared beginning into the state
// after it.
func (p *problem) begin(e reservoir.Engine, series []int) error {
	order := make([]int, 0, len(series))
	for k, i := range series {
		if p.lead[i] > 0 {
			order = append(order, k)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return p.lead[series[a]] - p.lead[series[b]] })
	state := make([]uint32, e.Network().Spec.Layout().Words)
	slot, at := int32(len(series)), 0
	for _, k := range order {
		if lead := p.lead[series[k]]; lead > at {
			run := reservoir.Run{Slot: slot, Reset: at == 0, To: int32(lead - at)}
			if err := e.Advance(slices.Repeat(p.first, lead-at), []reservoir.Run{run}, nil); err != nil {
				return err
			}
			if err := e.ReadState(slot, state); err != nil {
				return err
			}
			at = lead
		}
		if err := e.WriteState(int32(k), state); err != nil {
			return err
		}
	}
	return nil
}
