package paper

import "github.com/eusn-stream/eusn-stream/reservoir"

// Scales are the hyper-parameters of a network of the paper. Fields of other kinds stay
// zero.
type Scales struct {
	Units          int     `json:"units"`
	Layers         int     `json:"layers,omitzero"`          // of a deep network, Units being the sum over layers
	Eps            float64 `json:"eps,omitzero"`             // eusn
	Gamma          float64 `json:"gamma,omitzero"`           // eusn
	Recurrent      float64 `json:"recurrent,omitzero"`       // eusn: W is uniform in [-Recurrent, Recurrent]
	SpectralRadius float64 `json:"spectral_radius,omitzero"` // esn, resn, deepesn
	Leak           float64 `json:"leak,omitzero"`            // esn, resn, deepesn
	Input          float64 `json:"input,omitzero"`
	Bias           float64 `json:"bias,omitzero"`
	Seed           uint64  `json:"seed"`
}

// spec is the recipe of a single network.
func (s Scales) spec(channels int, kind reservoir.Kind) reservoir.Spec {
	return reservoir.Paper(channels, reservoir.PaperOptions{
		Kind: kind, Units: s.Units, Eps: s.Eps, Gamma: s.Gamma, Recurrent: s.Recurrent,
		SpectralRadius: s.SpectralRadius, Leak: s.Leak, Input: s.Input, Bias: s.Bias, Seed: s.Seed,
	})
}
