package reservoir

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/canon"
)

// DefaultSeed draws the default bank: fixed once, chosen on no data.
const DefaultSeed = 1

// DefaultBank returns the recipe that needs no search: bank standard, see Bank.
func DefaultBank(channels int) Spec { return mixedBank(channels, 80, 40) }

// EulerBank returns a bank of networks of the paper's kind, for comparison with the mixed
// banks: 40 Euler State Networks of 50 units with log-uniform scales, and five features per
// unit. Each network sees the standardized channels and their first differences, or 1 to 9 of
// them if there are many.
//
// eps is 1: eps only sets the size of the states, which standardized features do not show.
// The factors of eps are drawn: gamma, so that a member forgets within 2 to 3,300 samples,
// and eps times the spectral radius, the fastest turn of a member's state in radians per
// sample, below chaos. Short memories see local shapes, long memories the course of the whole
// sequence.
func EulerBank(channels int) Spec {
	return Spec{
		Arithmetic: Arithmetic, Kind: EuSN, Channels: channels,
		Members: 40, Units: 50, Seed: DefaultSeed, Precision: Float32,
		Standardize: true, Difference: true, Subset: 9,
		Features: slices.Clone(AllFeatures),
		Eps:      Fixed(1),
		EpsRho:   Dist{Lo: 1e-2, Hi: 0.3},
		Gamma:    Dist{Lo: 3e-4, Hi: 0.5},
		Input:    Dist{Lo: math.Sqrt(1e-3), Hi: math.Sqrt(10)},
		Bias:     Dist{Lo: 1e-2, Hi: math.Sqrt(10)},
	}
}

// Banks names the recipes of Bank, the default first.
var Banks = []string{"standard", "large", "small", "tiny", "euler"}

// Bank returns the named recipe, one of Banks, without a search: euler is
// EulerBank; the others are of kind Mixed, see docs/mixed-bank.md. large and
// standard have tap members and recurrent members, small and tiny few tap
// members of few taps, for many streams or small machines. Train and
// offline.Retrain set the largest lag, see ForLength.
func Bank(name string, channels int) (Spec, error) {
	switch name {
	case "euler":
		return EulerBank(channels), nil
	case "standard":
		return DefaultBank(channels), nil
	case "large":
		return mixedBank(channels, 160, 80), nil
	case "small":
		return mixedBank(channels, 40, 0), nil
	case "tiny":
		return mixedBank(channels, 16, 0), nil
	}
	return Spec{}, fmt.Errorf("reservoir: bank %q, want one of %s", name, strings.Join(Banks, ", "))
}

// mixedBank returns a bank of the given tap and recurrent members.
func mixedBank(channels, taps, recurrent int) Spec {
	s := Spec{
		Arithmetic: MixedArithmetic, Kind: Mixed, Channels: channels,
		Members: taps + recurrent, Units: canon.MixedUnits, Seed: DefaultSeed, Precision: Float32,
		Standardize: true, Difference: true, Subset: 9,
		Features: slices.Clone(MixedFeatures),
		Gamma:    Dist{Lo: 3e-4, Hi: 0.5},
		Input:    Dist{Lo: math.Sqrt(1e-3), Hi: math.Sqrt(10)},
		Bias:     Dist{Lo: 0.03, Hi: 3},
		Taps:     Taps{Members: taps, Count: 6, Activation: Cubic},
	}
	if recurrent > 0 {
		s.EpsRho = Dist{Lo: 1e-2, Hi: 0.3}
	} else {
		s.Taps.Count, s.Taps.Activation = 3, Clip
	}
	return s
}

// PaperOptions are the hyperparameters of one network of the paper. Options of
// other kinds stay zero. Input must be given; for the others see
// Spec.WithDefaults.
type PaperOptions struct {
	Kind           Kind    // zero: EuSN
	Units          int     // zero: 100
	Eps            float64 // eusn: step size
	Gamma          float64 // eusn: diffusion
	Recurrent      float64 // eusn: W is uniform in [-Recurrent, Recurrent]
	SpectralRadius float64 // esn, resn
	Leak           float64 // esn, resn
	Input          float64 // input weights are uniform in [-Input, Input]
	Bias           float64 // biases are uniform in [-Bias, Bias]
	Seed           uint64
}

// Paper is a single network of the paper: raw samples in, the last state out.
// The paper fits its readout to raw features with alpha 1.
func Paper(channels int, o PaperOptions) Spec {
	s := Spec{Kind: o.Kind, Channels: channels, Units: o.Units, Seed: o.Seed, Input: Fixed(o.Input), Bias: Fixed(o.Bias)}
	if o.Kind == ESN || o.Kind == RESN {
		s.SpectralRadius, s.Leak = Fixed(o.SpectralRadius), Fixed(o.Leak)
	} else {
		s.Eps, s.Gamma, s.Recurrent = Fixed(o.Eps), Fixed(o.Gamma), Fixed(o.Recurrent)
	}
	return s.WithDefaults()
}
