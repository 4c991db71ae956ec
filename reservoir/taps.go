package reservoir

import (
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/canon"
)

// MixedArithmetic is the version of the arithmetic of kind mixed; see
// docs/mixed-bank.md. The other kinds have Arithmetic.
const MixedArithmetic = 2

// Mixed is a bank of tap members and small recurrent members; see Taps and
// docs/mixed-bank.md. The scales are: Gamma the leak of every unit of a tap
// member and of every recurrent member, EpsRho as always with eps 1, Input the
// size of the input weights, Bias the size of the biases in units of the input
// weights' size.
const Mixed Kind = "mixed"

// Features that only kind mixed has. Units are in groups of 8: units 0 to 7 of
// a member, then 8 to 15.
const (
	Changes Feature = "sc"   // share of samples with a change of the sign of the argument
	Win     Feature = "win"  // share of samples with the argument the largest of its group
	Lose    Feature = "lose" // share of samples with the argument the smallest
)

// MixedFeatures are all features of kind mixed, in canonical order.
var MixedFeatures = []Feature{Last, Mean, Positive, Max, Std, Changes, Win, Lose}

// Activation is the function that a unit of kind mixed adds to its state.
type Activation string

// Activations of kind mixed. Other kinds always use Tanh. See package canon for
// the order of operations.
const (
	Tanh  Activation = "tanh"
	Cubic Activation = "cubic" // c - 4/27 c^3 of the argument c limited to [-1.5, 1.5]
	Clip  Activation = "clip"  // the argument limited to [-1, 1]
)

// Taps are the fields of kind mixed besides the scales. A tap member sees few
// inputs, each at several lags, and its units do not see each other; the other
// members are recurrent, as of kind eusn.
type Taps struct {
	Members    int        `json:"members"` // number of tap members, the first of Spec.Members
	Count      int        `json:"count"`   // pairs of an input and a lag of a tap member
	MaxLag     int        `json:"max_lag"` // the largest lag, samples; ForLength chooses it
	Activation Activation `json:"activation"`
}

// Bounds of kind mixed.
const (
	maxTaps   = 16  // of a member
	maxMaxLag = 256 // samples
)

// validateMixed reports to bad the errors in a recipe of kind mixed, except its
// scales.
func (s Spec) validateMixed(bad func(format string, args ...any)) {
	t := s.Taps
	within := func(name string, v, lo, hi int) {
		if v < lo || v > hi {
			bad("%s = %d, want %d to %d", name, v, lo, hi)
		}
	}
	if s.Units != canon.MixedUnits {
		bad("units = %d, want %d: kind mixed has no other", s.Units, canon.MixedUnits)
	}
	if s.Members%canon.BlockMembers != 0 || t.Members%canon.BlockMembers != 0 {
		bad("%d members, %d of them with taps: want multiples of %d", s.Members, t.Members, canon.BlockMembers)
	}
	within("taps.members", t.Members, canon.BlockMembers, max(canon.BlockMembers, s.Members))
	within("taps.count", t.Count, 1, maxTaps)
	if t.MaxLag == 0 {
		bad("taps.max_lag is not set: ForLength sets it, from the median length of the training sequences")
	} else {
		within("taps.max_lag", t.MaxLag, 1, maxMaxLag)
	}
	if !slices.Contains([]Activation{Tanh, Cubic, Clip}, t.Activation) {
		bad("taps.activation %q, want tanh, cubic or clip", t.Activation)
	}
	if !slices.Equal(s.Features, MixedFeatures) {
		bad("features %v, want %v: kind mixed has no choice", s.Features, MixedFeatures)
	}
}

// HasTaps reports whether member r has taps.
func (s Spec) HasTaps(r int) bool { return s.Kind == Mixed && r < s.Taps.Members }

// recurrentWeights is how many recurrent weights member r has.
func (s Spec) recurrentWeights(r int) int {
	if s.Kind == RESN || s.HasTaps(r) {
		return s.Units
	}
	return s.Units * s.Units
}

// checkTaps reports an error in member m, of index r, that breaks the rules of
// kind mixed, or has taps although of another kind.
func (s Spec) checkTaps(r int, m Member) error {
	if s.Kind == Mixed && (m.Keep != 1 || m.Gain != 1) {
		return fmt.Errorf("keep %v and gain %v, want 1 and 1", m.Keep, m.Gain)
	}
	if !s.HasTaps(r) {
		if len(m.Lags) > 0 {
			return fmt.Errorf("%d lags, want none", len(m.Lags))
		}
		return nil
	}
	if len(m.Inputs) != s.Taps.Count || len(m.Lags) != s.Taps.Count {
		return fmt.Errorf("%d inputs and %d lags, want %d", len(m.Inputs), len(m.Lags), s.Taps.Count)
	}
	for _, lag := range m.Lags {
		if lag < 0 || int(lag) > s.Taps.MaxLag {
			return fmt.Errorf("a lag of %d samples, want 0 to %d", lag, s.Taps.MaxLag)
		}
	}
	return nil
}

// arithmetic returns the version for the kind.
func (s Spec) arithmetic() int {
	if s.Kind == Mixed {
		return MixedArithmetic
	}
	return Arithmetic
}

// ForLength completes a recipe for training sequences of the given median length:
// for kind mixed an unset largest lag becomes a quarter of the length, at least 1
// and at most 64 samples. Other kinds stay unchanged.
func (s Spec) ForLength(median int) Spec {
	if s.Kind == Mixed && s.Taps.MaxLag == 0 {
		s.Taps.MaxLag = min(64, max(1, median/4))
	}
	return s
}

// featureClip is the limit of scaled features in a readout of kind mixed.
const featureClip = 1.5

// SoftScaling returns the scaling of features of kind mixed in training, for sequences of the
// given median length: softly, with a share of samples uncertain by three samples, and then
// clipped. Kinds of features follow each other in runs, each kind with its floor (package
// internal/fit, Soft). Features of other kinds of networks are divided by their deviation: run
// is 0.
func (s Spec) SoftScaling(median int) (run int, floors []float64, clip float64) {
	if s.Kind != Mixed {
		return 0, nil, 0
	}
	for _, f := range MixedFeatures {
		floor := 0.
		if f == Positive || f == Changes || f == Win || f == Lose {
			floor = 3 / float64(max(1, median))
		}
		floors = append(floors, floor)
	}
	return s.Units, floors, featureClip
}
