package offline

import (
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// DefaultSeed draws the default bank: fixed once, chosen on no data.
const DefaultSeed = 1

// DefaultBank is the network that needs no search: 40 Euler State Networks of
// 50 units whose scales are drawn log-uniformly, each seeing the standardised
// channels and their first differences, or 1 to 9 of those where there are
// many, with five features per unit.
//
// eps is 1: it only sets the size of the states, which standardised features
// do not show. What it multiplies is drawn: gamma, so that a member forgets
// within 2 to 3,300 samples, and eps times the spectral radius, the fastest
// turn of a member's state in radians a sample, short of chaos. Short memories
// see local shapes, long ones the course of the whole sequence.
func DefaultBank(channels int) reservoir.Spec {
	return reservoir.Spec{
		Arithmetic: reservoir.Arithmetic, Kind: reservoir.EuSN, Channels: channels,
		Members: 40, Units: 50, Seed: DefaultSeed, Precision: reservoir.Float32,
		Standardise: true, Difference: true, Subset: 9,
		Features: slices.Clone(reservoir.AllFeatures),
		Eps:      reservoir.Fixed(1),
		EpsRho:   reservoir.Dist{Lo: 1e-2, Hi: 0.3},
		Gamma:    reservoir.Dist{Lo: 3e-4, Hi: 0.5},
		Input:    reservoir.Dist{Lo: math.Sqrt(1e-3), Hi: math.Sqrt(10)},
		Bias:     reservoir.Dist{Lo: 1e-2, Hi: math.Sqrt(10)},
	}
}

// PaperScales are the hyper-parameters of one network of the paper. Those of
// other kinds stay zero.
type PaperScales struct {
	Units          int     `json:"units"`
	Layers         int     `json:"layers,omitzero"`          // of a deep network, Units being those of all together
	Eps            float64 `json:"eps,omitzero"`             // eusn
	Gamma          float64 `json:"gamma,omitzero"`           // eusn
	Recurrent      float64 `json:"recurrent,omitzero"`       // eusn: W is uniform in [-Recurrent, Recurrent]
	SpectralRadius float64 `json:"spectral_radius,omitzero"` // esn, resn, deepesn
	Leak           float64 `json:"leak,omitzero"`            // esn, resn, deepesn
	Input          float64 `json:"input,omitzero"`
	Bias           float64 `json:"bias,omitzero"`
	Seed           uint64  `json:"seed"`
}

// PaperNetwork is a single network of the paper: raw samples in, the last
// state out. Its head is fitted with Alphas {1} and RawFeatures.
func PaperNetwork(channels int, kind reservoir.Kind, p PaperScales) reservoir.Spec {
	s := reservoir.Spec{
		Arithmetic: reservoir.Arithmetic, Kind: kind, Channels: channels,
		Members: 1, Units: p.Units, Seed: p.Seed, Precision: reservoir.Float32,
		Features: []reservoir.Feature{reservoir.Last},
		Input:    reservoir.Fixed(p.Input), Bias: reservoir.Fixed(p.Bias),
	}
	if kind == reservoir.EuSN {
		s.Eps, s.Gamma, s.Recurrent = reservoir.Fixed(p.Eps), reservoir.Fixed(p.Gamma), reservoir.Fixed(p.Recurrent)
	} else {
		s.SpectralRadius, s.Leak = reservoir.Fixed(p.SpectralRadius), reservoir.Fixed(p.Leak)
	}
	return s
}
