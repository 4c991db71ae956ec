package reservoir

import (
	"errors"
	"fmt"
	"math"
)

// checkValues reports to bad a wrong number of values, or values that are too large.
func checkValues(bad func(format string, args ...any), what string, v []float32, want int, limit float32) {
	if len(v) != want {
		bad("%s has %d values, want %d", what, len(v), want)
		return
	}
	for i, x := range v {
		if !(x >= -limit && x <= limit) {
			bad("%s[%d] is %v, want a number of magnitude at most %g", what, i, x, limit)
			return
		}
	}
}

// ascend reports whether the indices of a member's inputs are below the number of inputs and,
// if the member has no taps, ascend.
func (s Spec) ascend(member int, inputs []int32) bool {
	for i, c := range inputs {
		if c < 0 || int(c) >= s.Inputs() || i > 0 && c <= inputs[i-1] && !s.HasTaps(member) {
			return false
		}
	}
	return true
}

// Validate reports all errors in the network: shapes, numbers that are not
// finite or large enough to overflow a state.
func (n *Network) Validate() error {
	if err := n.Spec.Validate(); err != nil {
		return err
	}
	s := n.Spec
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("reservoir: network: "+format, args...))
	}
	check := func(what string, v []float32, want int, limit float32) { checkValues(bad, what, v, want, limit) }
	check("mean", n.Norm.Mean, s.Channels, MaxInput)
	check("scale", n.Norm.Scale, s.Channels, largestScale)
	check("diff", n.Norm.Diff, s.Channels, largestScale)
	scale := max(largest(n.Norm.Scale), largest(n.Norm.Diff))
	if len(n.Members) != s.Members {
		bad("%d members, want %d", len(n.Members), s.Members)
	}
	for r, m := range n.Members {
		name := func(what string) string { return fmt.Sprintf("member %d: %s", r, what) }
		if !s.ascend(r, m.Inputs) {
			bad("%s: %v, want ascending indices below %d", name("inputs"), m.Inputs, s.Inputs())
		}
		if len(m.Inputs) == 0 {
			bad("%s: none", name("inputs"))
		}
		if err := s.checkTaps(r, m); err != nil {
			bad("%s: %w", name("taps"), err)
		}
		check(name("recurrent"), m.Recurrent, s.recurrentWeights(r), maxWeight)
		check(name("input"), m.Input, s.Units*len(m.Inputs), maxWeight)
		if w := largest(m.Input); scale > maxScale && !(scale*w <= maxScale*maxWeight) {
			bad("%s: the largest weight is %v and the largest scale of a channel %v, want a product of at most %g", name("input"), w, scale, maxScale*maxWeight)
		}
		check(name("bias"), m.Bias, s.Units, maxWeight)
		check(name("keep and gain"), []float32{m.Keep, m.Gain}, 2, 1e3)
	}
	return errors.Join(errs...)
}

// largest returns the largest magnitude.
func largest(values []float32) (most float64) {
	for _, v := range values {
		most = max(most, math.Abs(float64(v)))
	}
	return most
}

// Transform writes the transformed inputs of one raw sample to dst (Inputs
// values). previous is the previous sample, nil for the first. Canonical: one
// subtraction and one product each.
func (n *Network) Transform(dst, sample, previous []float32) {
	c := n.Spec.Channels
	for i, x := range sample[:c] {
		if n.Spec.Standardize {
			x = (x - n.Norm.Mean[i]) * n.Norm.Scale[i]
		}
		dst[i] = x
	}
	if !n.Spec.Difference {
		return
	}
	if previous == nil {
		clear(dst[c : 2*c])
		return
	}
	for i, x := range sample[:c] {
		dst[c+i] = (x - previous[i]) * n.Norm.Diff[i]
	}
}

// Bounds of the input transform and of the weights. The largest scale of the transform
// times the largest input weight is at most maxScale*maxWeight. Within these bounds and
// MaxInput no sum can overflow to infinity, whose difference would be a permanent NaN. A
// scale may exceed maxScale, up to largestScale, if the weights are small enough, as all
// weights from Draw are.
const (
	maxScale     = 1e12
	largestScale = 1e16
	maxWeight    = 4e6
)
