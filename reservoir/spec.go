package reservoir

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Arithmetic is the version of the canonical arithmetic (package canon and the
// step of doc.go) of all kinds except Mixed, which has MixedArithmetic. The
// version changes only if some state would change.
const Arithmetic = 1

// Kind is the reservoir's update rule.
type Kind string

// The reservoirs of the paper. All are h' = keep*h + gain*tanh(M h + U x + b).
// Mixed, which is not the paper's, is in taps.go.
const (
	EuSN Kind = "eusn" // keep 1, gain eps, M = W - W' - gamma*I
	ESN  Kind = "esn"  // keep 1-leak, gain leak, M dense, circular law
	RESN Kind = "resn" // as ESN, M = spectral radius times a cyclic shift
)

// Feature is a value of each unit for the readout.
type Feature string

// Features accumulate sample by sample; their order in the feature vector is
// the order given here, whatever the order in Spec.Features.
const (
	Last     Feature = "last" // the last state
	Mean     Feature = "mean" // mean of the state
	Positive Feature = "ppv"  // share of samples with a positive tanh argument
	Max      Feature = "max"  // maximum of the tanh
	Std      Feature = "std"  // standard deviation of the state (population)
)

// AllFeatures lists every feature of the paper's kinds in canonical order; kind
// Mixed has MixedFeatures.
var AllFeatures = []Feature{Last, Mean, Positive, Max, Std}

// Precision limits the weights' mantissas.
type Precision string

// Weight precisions.
const (
	Float32 Precision = "float32" // all 23 explicit mantissa bits
	TF32    Precision = "tf32"    // rounded to 10, exact in a TF32 product
)

// Dist is a scale drawn once per member, log-uniform in [Lo, Hi]; a fixed value
// if Lo equals Hi.
type Dist struct {
	Lo float64 `json:"lo"`
	Hi float64 `json:"hi"`
}

// Fixed returns the distribution that always gives v.
func Fixed(v float64) Dist { return Dist{v, v} }

// Spec is the recipe of a reservoir: a few hundred bytes that let Draw make the
// same weights on every platform. DefaultBank and Paper return recipes; in your
// own recipe, set Channels and Input, and WithDefaults sets the rest. The
// paper's network is one member with fixed scales, no transform and the feature
// Last.
type Spec struct {
	Arithmetic int       `json:"arithmetic"`
	Kind       Kind      `json:"kind"`
	Channels   int       `json:"channels"` // values per sample, before the transform
	Members    int       `json:"members"`  // independent reservoirs, block-diagonal
	Units      int       `json:"units"`    // of each member
	Seed       uint64    `json:"seed"`
	Precision  Precision `json:"precision"`

	Standardize bool `json:"standardize"` // (x - mean) / deviation of the training data, per channel
	Difference  bool `json:"difference"`  // append the scaled first difference: Channels more inputs
	Subset      int  `json:"subset"`      // a member sees 1..Subset of the inputs if there are more than 3; 0 = all

	Features []Feature `json:"features"`

	Eps            Dist `json:"eps,omitzero"`             // eusn: step size
	Gamma          Dist `json:"gamma,omitzero"`           // eusn: diffusion
	Recurrent      Dist `json:"recurrent,omitzero"`       // eusn: W ~ U[-r,r]; or give EpsRho
	EpsRho         Dist `json:"eps_rho,omitzero"`         // eusn: eps * spectral radius of W - W', sets r = EpsRho/eps / (2 sqrt(2N/3))
	SpectralRadius Dist `json:"spectral_radius,omitzero"` // esn, resn
	Leak           Dist `json:"leak,omitzero"`            // esn, resn
	Input          Dist `json:"input"`                    // U ~ U[-i,i]
	Bias           Dist `json:"bias"`                     // b ~ U[-b,b]

	Taps Taps `json:"taps,omitzero"` // mixed
}

// Limits keep one bad recipe from using the machine's whole memory.
const (
	MaxUnits    = 8192
	MaxMembers  = 4096
	MaxChannels = 4096
	maxWeights  = 1 << 28
)

// Inputs is the number of values each sample has after the transform.
func (s Spec) Inputs() int {
	if s.Difference {
		return 2 * s.Channels
	}
	return s.Channels
}

// Has reports whether the readout sees feature f.
func (s Spec) Has(f Feature) bool { return slices.Contains(s.Features, f) }

// FeatureCount is the length of the feature vector: for each member, for each
// feature in canonical order, one value per unit.
func (s Spec) FeatureCount() int { return s.Members * s.Units * len(s.Features) }

// OrderedFeatures returns the recipe's features, in the order within a member's part
// of the feature vector.
func (s Spec) OrderedFeatures() []Feature {
	if s.Kind == Mixed {
		return MixedFeatures
	}
	var ordered []Feature
	for _, f := range AllFeatures {
		if s.Has(f) {
			ordered = append(ordered, f)
		}
	}
	return ordered
}

// Validate reports all errors in the recipe.
func (s Spec) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("reservoir: spec: "+format, args...))
	}
	if want := s.arithmetic(); s.Arithmetic != want {
		bad("arithmetic version %d is not known here (this build has %d for kind %s)", s.Arithmetic, want, s.Kind)
	}
	within := func(name string, v, lo, hi int) {
		if v < lo || v > hi {
			bad("%s = %d, want %d to %d", name, v, lo, hi)
		}
	}
	within("channels", s.Channels, 1, MaxChannels)
	within("members", s.Members, 1, MaxMembers)
	within("units", s.Units, 1, MaxUnits)
	within("subset", s.Subset, 0, MaxChannels)
	if len(errs) == 0 {
		n := float64(s.Units)
		if w := float64(s.Members) * n * (n + float64(s.Inputs()) + 1); w > maxWeights {
			bad("%.0f weights, want at most %d", w, maxWeights)
		}
	}
	if s.Precision != Float32 && s.Precision != TF32 {
		bad("precision %q, want float32 or tf32", s.Precision)
	}
	if s.Kind == Mixed {
		s.validateMixed(bad)
	} else {
		s.validateFeatures(bad)
		if s.Taps != (Taps{}) {
			bad("taps are not a parameter of kind %s", s.Kind)
		}
	}
	s.validateScales(bad)
	return errors.Join(errs...)
}

// validateFeatures reports to bad the errors in the choice of features.
func (s Spec) validateFeatures(bad func(format string, args ...any)) {
	if len(s.Features) == 0 {
		bad("no features, want at least one of last, mean, ppv, max, std")
	}
	for i, f := range s.Features {
		if !slices.Contains(AllFeatures, f) {
			bad("feature %q, want last, mean, ppv, max or std", f)
		} else if slices.Contains(s.Features[:i], f) {
			bad("feature %q given twice", f)
		}
	}
}

// checkDist reports to bad the errors in the range of a distribution.
func (d Dist) checkDist(bad func(format string, args ...any), name string, zeroOK bool, max float64) {
	switch {
	case !(d.Lo <= d.Hi) || math.IsInf(d.Hi, 0):
		bad("%s: range %g..%g, want lo <= hi, both finite", name, d.Lo, d.Hi)
	case d.Lo < 0 || (d.Lo == 0 && (!zeroOK || d.Hi != 0)):
		bad("%s = %g..%g, want positive values", name, d.Lo, d.Hi)
	case d.Lo > 0 && d.Lo < 1e-30:
		bad("%s = %g, want at least 1e-30", name, d.Lo)
	case d.Hi > max:
		bad("%s = %g, want at most %g", name, d.Hi, max)
	}
}

// validateScales reports to bad the errors in the distributions of each kind.
func (s Spec) validateScales(bad func(format string, args ...any)) {
	dist := func(name string, d Dist, zeroOK bool, max float64) { d.checkDist(bad, name, zeroOK, max) }
	if s.Kind == Mixed { // whose biases are products of both, and never 0
		dist("input", s.Input, false, 1e4)
		dist("bias", s.Bias, false, 1e2)
	} else {
		dist("input", s.Input, true, 1e6)
		dist("bias", s.Bias, true, 1e6)
	}
	unset := func(name string, d Dist) {
		if d != (Dist{}) {
			bad("%s is not a parameter of kind %s", name, s.Kind)
		}
	}
	switch s.Kind {
	case EuSN:
		dist("eps", s.Eps, false, 1e3)
		dist("gamma", s.Gamma, true, 1e3)
		if s.EpsRho != (Dist{}) {
			dist("eps_rho", s.EpsRho, false, 1e3)
			if s.Recurrent != (Dist{}) {
				bad("give recurrent or eps_rho, not both")
			}
		} else {
			dist("recurrent", s.Recurrent, true, 1e6)
		}
		unset("spectral_radius", s.SpectralRadius)
		unset("leak", s.Leak)
	case ESN, RESN:
		dist("spectral_radius", s.SpectralRadius, true, 1e6)
		dist("leak", s.Leak, false, 1)
		unset("eps", s.Eps)
		unset("gamma", s.Gamma)
		unset("recurrent", s.Recurrent)
		unset("eps_rho", s.EpsRho)
	case Mixed:
		dist("gamma", s.Gamma, false, 1)
		if s.Members > s.Taps.Members {
			dist("eps_rho", s.EpsRho, false, 1e3)
		} else {
			unset("eps_rho, where all members have taps,", s.EpsRho)
		}
		unset("eps", s.Eps)
		unset("recurrent", s.Recurrent)
		unset("spectral_radius", s.SpectralRadius)
		unset("leak", s.Leak)
	default:
		bad("kind %q, want eusn, esn, resn or mixed", s.Kind)
	}
}
