package paper

import (
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/offline/baseline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// MaxConfigurations is the length of each of the paper's search lists that were finished
// within ten hours.
const MaxConfigurations = 200

// searchSeed is the seed of the published searches, once for each data set.
const searchSeed = 42

// Configurations is the paper's list of random configurations for a reservoir. The lists
// of EuSN, ESN, R-ESN and DeepESN, each of the given length, follow each other in one
// stream of NumPy's legacy generator. The lists are the same for every data set with
// complete searches, of length 200; a search stopped earlier shifts the following lists.
// Seeds are zero.
func Configurations(model string, length int) []Scales {
	rng := newRandomState(searchSeed)
	d := scaleDraws{rng, func() int { return 10 * rng.randint(1, 21) }, func() float64 { return float64(rng.randint(1, 16)) / 10 }}
	for _, m := range slices.Concat(PaperModels, []string{DeepESN}) {
		if list := d.listConfigurations(m, length); m == model {
			return list
		}
	}
	return nil
}

// scaleDraws draws configurations of reservoirs from the published program's generator,
// in the order of that program.
type scaleDraws struct {
	rng    *randomState
	units  func() int
	radius func() float64 // of leaky networks
}

func (d scaleDraws) listConfigurations(model string, n int) []Scales {
	list := make([]Scales, n)
	for i := range list {
		list[i] = d.drawScales(model)
	}
	return list
}

func (d scaleDraws) drawScales(model string) Scales {
	wide := func() float64 { return decade(d.rng.randint(-5, 1)) }
	scale := func() float64 { return decade(d.rng.randint(-3, 2)) }
	switch model {
	case string(reservoir.EuSN):
		return Scales{Units: d.units(), Gamma: wide(), Eps: wide(), Input: scale(), Recurrent: scale(), Bias: scale()}
	case DeepESN:
		layers := d.rng.randint(2, 6)
		c := d.drawScales(string(reservoir.ESN))
		c.Layers = layers
		return c
	}
	return Scales{Units: d.units(), Leak: wide(), Input: scale(), SpectralRadius: d.radius(), Bias: scale()}
}

// decade is 10^n, correctly rounded.
func decade(n int) float64 {
	return [...]float64{1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10}[n+5]
}

// Training is the method of training a model of TrainedModels.
type Training struct {
	Rate   float64 `json:"learning_rate"`
	Batch  int     `json:"batch"`
	Epochs int     `json:"max_epochs"`

	// Arithmetic is baseline.Arithmetic; absent in earlier results, in float64.
	Arithmetic int `json:"arithmetic,omitzero"`
}

// trainable is a configuration of a search among trained models.
type trainable struct {
	scales   Scales   // units, and of arnn eps and gamma
	training Training // its rate and batch
}

// trainables is the published list of 200 random configurations of a model, as drawn by
// the published program if no previous search exceeds its time. The program searches an
// LSTM, GRU, A-RNN and RNN, in this order, in one stream.
func trainables(model string) []trainable {
	rng := newRandomState(searchSeed)
	for _, m := range []string{"lstm", string(baseline.GRU), string(baseline.ARNN), string(baseline.RNN)} {
		list := make([]trainable, MaxConfigurations)
		for i := range list {
			c := &list[i]
			c.scales.Units = 10 * rng.randint(1, 21)
			c.training.Rate = decade(rng.randint(-5, 0))
			c.training.Batch = 1 << rng.randint(5, 9)
			if m == string(baseline.ARNN) {
				c.scales.Gamma = decade(rng.randint(-5, 1))
				c.scales.Eps = decade(rng.randint(-5, 1))
			}
		}
		if m == model {
			return list
		}
	}
	return nil
}

// trainables returns the searched list.
func (s Settings) trainables(model string) []trainable {
	return slices.DeleteFunc(trainables(model), func(c trainable) bool { return c.training.Rate < s.LeastRate })
}

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
