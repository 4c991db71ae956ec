package paper

import (
	"context"
	"errors"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// callValues bounds the samples of an engine call, and thereby the wait for a canceled
// job.
const callValues = 1 << 19

// assessment lists the series that a readout learns from and the series that it predicts.
type assessment struct {
	learn, ask  []int // series of the problem
	alphas      []float64
	standardize bool
}

// outcome is the result of a network.
type outcome struct {
	predicted  []int // class of each queried series
	correct    int   // correct predictions
	alpha      float64
	parameters int // of the readout
}

// openEngine opens an engine with the given number of slots.
type openEngine func(net *reservoir.Network, slots int) (reservoir.Engine, error)

// assess draws a network, or several as layers, runs the series through the network once,
// fits a readout to the end states of the training series and counts the correct
// predictions of the queried series. It uses one thread except for the readout's matrix
// products, with the same result for every engine.
func (p *problem) assess(ctx context.Context, specs []reservoir.Spec, open openEngine, a assessment) (o outcome, err error) {
	if len(specs) > 1 {
		return p.assessDeep(ctx, specs, open, a)
	}
	net, err := reservoir.Draw(specs[0])
	if err != nil {
		return o, err
	}
	series := slices.Concat(a.learn, a.ask)
	e, err := open(net, len(series)+1) // the last slot computes the shared prefixes
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if err := p.runSeries(ctx, e, series); err != nil {
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
	o.correct = p.countCorrect(a.ask, o.predicted)
	return o, nil
}

// fitReadout fits a readout to the features of each training series.
func (p *problem) fitReadout(ctx context.Context, features []float32, a assessment) (*readout.Linear, outcome, error) {
	labels := make([]int, len(a.learn))
	for k, i := range a.learn {
		labels[k] = p.label[i]
	}
	linear, report, err := fit.Fit(ctx, features, labels, p.classes, fit.Options{Alphas: a.alphas, Standardize: a.standardize})
	if errors.Is(err, fit.ErrConstant) { // every series saturates the reservoir: a bad configuration, but no end of the search
		linear, err = majority(p.classes, labels, len(features)/len(labels)), nil
		report.Alpha = a.alphas[0]
	}
	if err != nil {
		return nil, outcome{}, err
	}
	return linear, outcome{alpha: report.Alpha, parameters: linear.Columns() * (linear.Features() + 1)}, nil
}

// majority is the readout of a ridge without informative features: it predicts the class
// with most series, the first of equals.
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

// predict applies the readout to the states in the engine's slots.
func (p *problem) predict(e reservoir.Engine, linear *readout.Linear, a assessment) ([]int, error) {
	if err := e.SetReadouts([]*readout.Linear{linear}); err != nil {
		return nil, err
	}
	runs := make([]reservoir.Run, len(a.ask))
	for k := range runs {
		runs[k] = reservoir.Run{Slot: int32(len(a.learn) + k), Emit: true} // no samples: the current state
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

// countCorrect returns the number of listed series with a correct prediction.
func (p *problem) countCorrect(series, predicted []int) (correct int) {
	for k, i := range series {
		if predicted[k] == p.label[i] {
			correct++
		}
	}
	return correct
}

// runSeries advances slot k to the end of series[k].
//
// Series with the same first samples share their states until they differ. The common
// case is one repeated sample, see beginnings: the repetitions run once, and every series
// starts at its first different sample from a copy of the state. The bits are the same.
func (p *problem) runSeries(ctx context.Context, e reservoir.Engine, series []int) error {
	skip := p.isWorthSharing(series)
	if skip {
		if err := p.startSlots(e, series); err != nil {
			return err
		}
	}
	// Calls take adjacent series; the order of the slots is free.
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

// isWorthSharing reports whether a single run of the shared prefix saves time: a single
// stream costs about as much as eight in a tile.
func (p *problem) isWorthSharing(series []int) bool {
	sum, longest := 0, 0
	for _, i := range series {
		sum += p.lead[i]
		longest = max(longest, p.lead[i])
	}
	return sum > 16*longest
}

// startSlots writes the state after the shared prefix into every slot whose series has
// the prefix.
func (p *problem) startSlots(e reservoir.Engine, series []int) error {
	order := make([]int, 0, len(series))
	for k, i := range series {
		if p.lead[i] > 0 {
			order = append(order, k)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return p.lead[series[a]] - p.lead[series[b]] })
	state := make([]uint32, engine.LayoutOf(e.Network().Spec).Words)
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

// search returns the assessment of a configuration, final the assessment of the chosen
// configuration.
func (s Settings) search(p *problem) assessment {
	return s.assessment(p.fit, p.validation)
}

func (s Settings) final(p *problem) assessment {
	if s.Protocol == PaperExact {
		return s.assessment(p.fit, p.test)
	}
	return s.assessment(p.train, p.test)
}

func (s Settings) assessment(learn, ask []int) assessment {
	if s.Protocol == PaperExact {
		return assessment{learn: learn, ask: ask, alphas: []float64{1}}
	}
	return assessment{learn: learn, ask: ask, alphas: fit.DefaultAlphas(), standardize: true}
}
