package baseline

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// Options say how to train.
type Options struct {
	Rate     float64 // Adam's learning rate, in (0,1]
	Batch    int     // series in a step
	Epochs   int     // at most
	Patience int     // epochs without a smaller validation loss, after which to stop
	// Restore takes the weights of the smallest validation loss at the end;
	// the published experiments keep the last ones.
	Restore bool
	// Epoch, where set, is called after each.
	Epoch func(done int, validationLoss float64)
}

// Report says how a training went.
type Report struct {
	Epochs int     // done
	Best   int     // epoch of the smallest validation loss, from 1; 0 if none was a number
	Loss   float64 // that loss; +Inf if none was a number
}

func (o Options) validate() error {
	if !(o.Rate > 0 && o.Rate <= 1) || o.Batch < 1 || o.Epochs < 1 || o.Patience < 1 {
		return fmt.Errorf("baseline: learning rate %v, batch %d, epochs %d, patience %d, want a rate in (0,1] and the others at least 1", o.Rate, o.Batch, o.Epochs, o.Patience)
	}
	return nil
}

// check reports what is wrong with series to learn from: each needs a sample
// and a class.
func (s Spec) check(series []Series) error {
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

// Train fits the network to learn, in batches of a new order each epoch, and
// stops by its loss over validation. When ctx ends, Train does so within one
// pass over a few series and returns its cause; the weights are then anything.
func (n *Network) Train(ctx context.Context, learn, validation []Series, o Options) (Report, error) {
	r := Report{Loss: math.Inf(1)}
	if err := o.validate(); err != nil {
		return r, err
	}
	for _, part := range [][]Series{learn, validation} {
		if len(part) == 0 {
			return r, fmt.Errorf("baseline: %d series to learn, %d to validate with, want some of each", len(learn), len(validation))
		}
		if err := n.Spec.check(part); err != nil {
			return r, err
		}
	}
	order := slices.Clone(learn)
	gradient, optimiser := n.layout.weights(), newAdam(o.Rate, len(n.weights.all))
	var best []float32
	for r.Epochs < o.Epochs && r.Epochs-r.Best < o.Patience {
		n.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for batch := range slices.Chunk(order, o.Batch) {
			if err := n.gradient(ctx, batch, &gradient); err != nil {
				return r, err
			}
			optimiser.step(n.weights.all, gradient.all)
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
			break // a weight is no number, and none ever will be again
		}
	}
	if best != nil {
		copy(n.weights.all, best)
		n.refresh()
	}
	return r, nil
}
