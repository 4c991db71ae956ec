package reservoir

// defaultUnits is the size of a member.
const defaultUnits = 100

// WithDefaults completes a recipe. A zero field without a meaning of zero gets
// its default: this build's Arithmetic, EuSN, 1 member of 100 units, Float32,
// and the feature Last. If no scale of the kind is given, all scales get
// defaults: for eusn eps 0.01, gamma 0.001, recurrent 0.1; for esn and resn
// spectral radius 0.9, leak 0.1. Channels and Input have no default.
// WithDefaults returns a recipe accepted by Validate unchanged.
func (s Spec) WithDefaults() Spec {
	fill(&s.Kind, EuSN)
	fill(&s.Arithmetic, s.arithmetic())
	fill(&s.Members, 1)
	fill(&s.Units, defaultUnits)
	fill(&s.Precision, Float32)
	if len(s.Features) == 0 {
		s.Features = []Feature{Last}
	}
	var none Dist
	switch {
	case s.Kind == EuSN && s.Eps == none && s.Gamma == none && s.Recurrent == none && s.EpsRho == none:
		s.Eps, s.Gamma, s.Recurrent = Fixed(0.01), Fixed(0.001), Fixed(0.1)
	case (s.Kind == ESN || s.Kind == RESN) && s.SpectralRadius == none && s.Leak == none:
		s.SpectralRadius, s.Leak = Fixed(0.9), Fixed(0.1)
	}
	return s
}

// fill sets v to its default if v is zero.
func fill[T comparable](v *T, byDefault T) {
	var zero T
	if *v == zero {
		*v = byDefault
	}
}
