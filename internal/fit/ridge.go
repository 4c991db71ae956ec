package fit

import (
	"context"
	"errors"
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/dense"
	"github.com/eusn-stream/eusn-stream/readout"
)

// newLinear folds the space into a float32 readout. w is features x columns. Center cannot
// hold the means exactly, nor Weights the solution, so the intercept is computed for the
// rounded values of both: the scores' mean over the training samples stays the targets' mean.
// With a clip, Center and Limit are the solver's own. interval belongs to a regression; nil:
// no regression.
func newLinear(classes []string, s space, w dense.Matrix, yMean []float64, interval *readout.Interval) (*readout.Linear, error) {
	f := len(s.mean)
	l := &readout.Linear{
		Name:      "default",
		Interval:  interval,
		Classes:   classes,
		Center:    make([]float32, f),
		Weights:   make([]float32, len(yMean)*f),
		Intercept: make([]float32, len(yMean)),
	}
	for j, m := range s.mean {
		l.Center[j] = float32(m)
	}
	center := func(j int) float64 { return float64(l.Center[j]) } // subtracted from x, other than the mean
	if s.clip != nil {
		l.Center, l.Limit = s.clip.center, s.clip.limit
		center = func(int) float64 { return 0 } // already subtracted from x
	}
	for c, b := range yMean {
		for j := range f {
			v := float32(w.Row(j)[c] * s.scale[j])
			l.Weights[c*f+j] = v
			b += float64(v) * (center(j) - s.mean[j])
		}
		l.Intercept[c] = float32(b)
	}
	return l, l.Validate()
}

// factorRidge factors a + alpha*I in place.
func factorRidge(ctx context.Context, a dense.Matrix, alpha float64) error {
	for i := range a.Rows {
		a.Row(i)[i] += alpha
	}
	err := dense.Cholesky(ctx, a)
	if errors.Is(err, dense.ErrSingular) {
		return fmt.Errorf("fit: alpha = %g: %w: the features are linearly dependent, take a larger alpha", alpha, err)
	}
	return err
}
