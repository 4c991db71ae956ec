package embedding

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/dense"
	"github.com/eusn-stream/eusn-stream/internal/offline/descent"
)

// Options configure a training.
type Options struct {
	Epochs   int // the largest number of epochs
	Patience int // epochs without a smaller validation loss, after which training stops
	// Last keeps the weights of the last epoch; otherwise the weights of the smallest
	// validation loss are restored at the end.
	Last bool
	// Batch, if set, is called after each batch and each epoch: documents processed so
	// far, and the documents of all expected epochs if the loss falls no further.
	Batch func(done, expected int)
}

// Epoch is the validation result after an epoch.
type Epoch struct {
	Number   int     `json:"epoch"` // from 1; 0 if no loss was a number
	Loss     float64 `json:"loss"`  // mean cross-entropy
	Accuracy float64 `json:"accuracy"`
}

// Report is the result of a training: the epoch of the smallest validation loss, and the
// last.
type Report struct {
	Best, Last Epoch
}

// RMSProp's constants, Keras' defaults.
const (
	rate    = 0.001
	decay   = 0.9
	epsilon = 1e-7
)

// descend moves the weights down the gradient, and clears the gradient. A gradient of
// zero changes only the mean square; skipping the rest gives the same bits.
func descend(w, square, gradient []float64) {
	dense.Parallel(len(w), 1<<14, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			g := gradient[i]
			v := float64(decay * square[i])
			if g != 0 {
				v += float64((1 - decay) * float64(g*g))
				w[i] -= rate * g / (math.Sqrt(v) + epsilon)
				gradient[i] = 0
			}
			square[i] = v
		}
	})
}

// checkDocuments reports the errors of documents for a spec.
func (s Spec) checkDocuments(documents []Document) error {
	for i, d := range documents {
		if len(d.Tokens) < 1 || len(d.Tokens) > s.Steps {
			return fmt.Errorf("embedding: document %d: %d tokens, want 1 to %d", i, len(d.Tokens), s.Steps)
		}
		if k := slices.IndexFunc(d.Tokens, func(t int32) bool { return t < 0 || int(t) >= s.Words }); k >= 0 {
			return fmt.Errorf("embedding: document %d: token %d is %d, want 0 to %d", i, k, d.Tokens[k], s.Words-1)
		}
		if d.Class < 0 || d.Class >= s.Classes {
			return fmt.Errorf("embedding: document %d: class %d, want one of %d", i, d.Class, s.Classes)
		}
	}
	return nil
}

// checkTraining refuses a training without documents or epochs.
func (s Spec) checkTraining(learn, validation []Document, o Options) error {
	if o.Epochs < 1 || o.Patience < 1 || len(learn) == 0 || len(validation) == 0 {
		return fmt.Errorf("embedding: %d epochs, patience %d, %d documents to learn, %d to validate with: want at least 1 of each", o.Epochs, o.Patience, len(learn), len(validation))
	}
	for _, part := range [][]Document{learn, validation} {
		if err := s.checkDocuments(part); err != nil {
			return err
		}
	}
	return nil
}

// trainEpoch descends along the gradient of each batch. square are the running means of
// the squared gradients; report gets the number of processed documents.
func (n *Network) trainEpoch(ctx context.Context, documents []Document, gradient *weights, square []float64, report func(more int)) error {
	for batch := range slices.Chunk(documents, rows) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n.addGradient(batch, gradient)
		descend(n.weights.all, square, gradient.all)
		report(len(batch))
	}
	return nil
}

// Train fits the network to learn and stops by its loss over validation. If ctx ends,
// Train returns its cause within one batch; the weights are then undefined.
func (n *Network) Train(ctx context.Context, learn, validation []Document, o Options) (r Report, err error) {
	if err := n.Spec.checkTraining(learn, validation, o); err != nil {
		return r, err
	}
	r.Best.Loss = math.Inf(1)
	order, gradient := slices.Clone(learn), newWeights(n.Spec)
	square := make([]float64, len(gradient.all))
	var best []float64
	done, epoch := 0, len(learn)+len(validation)
	report := func(more int) {
		done += more
		if o.Batch != nil {
			o.Batch(done, epoch*min(o.Epochs, r.Best.Number+o.Patience))
		}
	}
	for r.Last.Number < o.Epochs && r.Last.Number-r.Best.Number < o.Patience {
		n.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		if err := n.trainEpoch(ctx, order, &gradient, square, report); err != nil {
			return r, err
		}
		loss, correct, err := n.Ask(ctx, validation)
		if err != nil {
			return r, err
		}
		r.Last = Epoch{r.Last.Number + 1, loss, float64(correct) / float64(len(validation))}
		if loss < r.Best.Loss {
			r.Best = r.Last
			if !o.Last {
				best = append(best[:0], n.weights.all...)
			}
		}
		report(len(validation))
		if loss != loss {
			break // a weight is NaN, and all later results are
		}
	}
	if best != nil {
		copy(n.weights.all, best)
	}
	return r, nil
}

// addGradient adds the gradient of the mean loss over a batch to g.
func (n *Network) addGradient(batch []Document, g *weights) {
	scores := n.forward(batch)
	for i, d := range batch {
		descent.CrossEntropy(scores.Row(i), d.Class, 1/float64(len(batch)))
	}
	n.backward(g)
}

// Ask returns the mean cross-entropy over documents, and the number of correctly
// classified documents.
func (n *Network) Ask(ctx context.Context, documents []Document) (loss float64, correct int, err error) {
	for batch := range slices.Chunk(documents, rows) {
		if ctx.Err() != nil {
			return 0, 0, context.Cause(ctx)
		}
		scores := n.forward(batch)
		for i, d := range batch {
			l, class := descent.CrossEntropy(scores.Row(i), d.Class, 0)
			loss += l
			if class == d.Class {
				correct++
			}
		}
	}
	return loss / float64(len(documents)), correct, nil
}
