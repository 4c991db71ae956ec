package baseline

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
)

// Options configure a training.
type Options struct {
	Rate     float64 // Adam's learning rate, in (0,1]
	Batch    int     // series in a step
	Epochs   int     // the largest number of epochs
	Patience int     // epochs without a smaller validation loss, after which training stops
	// Restore restores the weights of the smallest validation loss at the end; the
	// published experiments keep the last weights.
	Restore bool
	// Epoch, if set, is called after each epoch.
	Epoch func(done int, validationLoss float64)
}

// Report is the result of a training.
type Report struct {
	Epochs int     // number of epochs
	Best   int     // epoch of the smallest validation loss, from 1; 0 if no loss was a number
	Loss   float64 // this loss; +Inf if no loss was a number
}

func (o Options) validate() error {
	if !(o.Rate > 0 && o.Rate <= 1) || o.Batch < 1 || o.Epochs < 1 || o.Patience < 1 {
		return fmt.Errorf("baseline: learning rate %v, batch %d, epochs %d, patience %d, want a rate in (0,1] and the rest at least 1", o.Rate, o.Batch, o.Epochs, o.Patience)
	}
	return nil
}

// checkSeries reports the errors of training series: each needs a sample and a class.
func (s Spec) checkSeries(series []Series) error {
	for i, one := range series {
		if len(one.Values) == 0 || len(one.Values)%s.Channels != 0 {
			return fmt.Errorf("baseline: series %d: %d values of %d channels, want at least one whole sample", i, len(one.Values), s.Channels)
		}
		if one.Class < 0 || one.Class >= s.Classes {
			return fmt.Errorf("baseline: series %d: class %d, want one of %d", i, one.Class, s.Classes)
		}
	}
	return nil
}

// Train fits the network to learn, in batches of a new order each epoch, and stops by its
// loss over validation. If ctx ends, Train returns its cause within a pass over a few
// series; the weights are then undefined.
func (n *Network) Train(ctx context.Context, learn, validation []Series, o Options) (Report, error) {
	r := Report{Loss: math.Inf(1)}
	if err := o.validate(); err != nil {
		return r, err
	}
	for _, part := range [][]Series{learn, validation} {
		if len(part) == 0 {
			return r, fmt.Errorf("baseline: %d series to learn, %d to validate with, want some of each", len(learn), len(validation))
		}
		if err := n.Spec.checkSeries(part); err != nil {
			return r, err
		}
	}
	order := slices.Clone(learn)
	gradient, optimizer := n.layout.weights(), newAdam(o.Rate, len(n.weights.all))
	var best []float32
	for r.Epochs < o.Epochs && r.Epochs-r.Best < o.Patience {
		n.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for batch := range slices.Chunk(order, o.Batch) {
			if err := n.gradient(ctx, batch, &gradient); err != nil {
				return r, err
			}
			optimizer.step(n.weights.all, gradient.all)
			n.refresh()
		}
		loss, _, err := n.Ask(ctx, validation)
		if err != nil {
			return r, err
		}
		r.Epochs++
		if loss < r.Loss {
			r.Loss, r.Best = loss, r.Epochs
			if o.Restore {
				best = append(best[:0], n.weights.all...)
			}
		}
		if o.Epoch != nil {
			o.Epoch(r.Epochs, loss)
		}
		if loss != loss {
			break // a weight is NaN, and all later results are
		}
	}
	if best != nil {
		copy(n.weights.all, best)
		n.refresh()
	}
	return r, nil
}

// adam is the optimizer of the package comment.
type adam struct {
	rate, first, second float64 // learning rate; the running powers of beta1 and beta2
	mean, square        []float32
}

const (
	beta1   = 0.9
	beta2   = 0.999
	epsilon = 1e-7
)

func newAdam(rate float64, parameters int) *adam {
	return &adam{rate, 1, 1, make([]float32, parameters), make([]float32, parameters)}
}

// step moves the weights down the gradient, and clears the gradient.
func (a *adam) step(w, gradient []float32) {
	a.first *= beta1
	a.second *= beta2
	rate := a.rate * math.Sqrt(1-a.second) / (1 - a.first)
	active.adamStep(w, gradient, a.mean, a.square, float32(rate))
}

// Predict returns the class of each series, ignoring Series.Class.
func (n *Network) Predict(ctx context.Context, series []Series) ([]int, error) {
	order := make([]int, len(series))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(series[b].Values), len(series[a].Values)) })
	classes := make([]int, len(series))
	for part := range slices.Chunk(order, rows) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		batch := make([]Series, len(part))
		for k, i := range part {
			batch[k] = Series{Values: series[i].Values} // loss needs a class, without effect here
		}
		n.tape.load(n.layout, batch)
		n.forward()
		for k, i := range part {
			_, classes[i] = n.loss(k, 0)
		}
	}
	return classes, nil
}
