package reservoir

import (
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/canon"
)

// MixedArithmetic is the version of the arithmetic of kind mixed; see
// docs/mixed-bank.md. The other kinds have Arithmetic.
const MixedArithmetic = 2

// Mixed is a bank of tap members and small recurrent ones; see Taps and
// docs/mixed-bank.md. The scales mean there: Gamma the leak of every unit of a
// tap member and of every recurrent member, EpsRho as ever with eps 1, Input the
// size of the input weights, Bias that of the biases in units of the input
// weights' size.
const Mixed Kind = "mixed"

// Features that only kind mixed has. Units are in groups of 8: units 0 to 7 of
// a member, then 8 to 15.
const (
	Changes Feature = "sc"   // share of samples where the argument becomes positive, or ceases to be
	Win     Feature = "win"  // share of samples where the argument is the largest of its group
	Lose    Feature = "lose" // share of samples where it is the smallest
)

// MixedFeatures are those of kind mixed, all of them, in canonical order.
var MixedFeatures = []Feature{Last, Mean, Positive, Max, Std, Changes, Win, Lose}

// Activation is the function that a unit of kind mixed adds to its state.
type Activation string

// The activations of kind mixed. Those of the other kinds are always Tanh. See
// package canon for the order of operations.
const (
	Tanh  Activation = "tanh"
	Cubic Activation = "cubic" // c - 4/27 c^3 of the argument c limited to [-1.5, 1.5]
	Clip  Activation = "clip"  // the argument limited to [-1, 1]
)

// Taps are what kind mixed has beyond the scales. A tap member sees few inputs,
// each at several lags, and its units do not see each other; the other members
// are recurrent, as of kind eusn.
type Taps struct {
	Members    int        `json:"members"` // so many of Spec.Members, the first, are tap members
	Count      int        `json:"count"`   // pairs of an input and a lag that a tap member sees
	MaxLag     int        `json:"max_lag"` // the largest lag, samples; ForLength chooses it
	Activation Activation `json:"activation"`
}

// Bounds of kind mixed.
const (
	maxTaps   = 16  // of a member
	maxMaxLag = 256 // samples
)

// validateMixed tells bad what is wrong with a recipe of kind mixed, but for its
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

// checkTaps reports what in member m, of index r, is not as kind mixed has it,
// or has taps that another kind has not.
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

// arithmetic is the version that the kind has.
func (s Spec) arithmetic() int {
	if s.Kind == Mixed {
		return MixedArithmetic
	}
	return Arithmetic
}

// ForLength completes a recipe for training sequences of that median length: of
// kind mixed the largest lag, where it is not set, is a quarter of the length, at
// least 1 and at most 64 samples. Other kinds are returned as they are.
func (s Spec) ForLength(median int) Spec {
	if s.Kind == Mixed && s.Taps.MaxLag == 0 {
		s.Taps.MaxLag = min(64, max(1, median/4))
	}
	return s
}

// featureClip is where a readout of kind mixed limits its scaled features.
const featureClip = 1.5

// SoftScaling returns how a training scales the features of kind mixed, for sequences of
// that median length: softly, where a share of samples is uncertain by three samples, and then
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
