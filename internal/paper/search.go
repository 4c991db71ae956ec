package paper

import (
	"slices"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// MaxConfigurations is the length of each of the paper's search lists, where
// its ten hours were enough.
const MaxConfigurations = 200

// searchSeed is what the published experiments seed their search with, once
// for each data set.
const searchSeed = 42

// Configurations is the paper's list of random configurations for one of its
// reservoirs. The lists of EuSN, ESN, R-ESN and DeepESN, each of length
// configurations, follow each other in one stream of NumPy's legacy generator.
// They are the same for every data set where each search came to its end, with
// 200; one that is stopped earlier lets the next list begin earlier. Seeds are
// left zero.
func Configurations(model string, length int) []Scales {
	rng := newRandomState(searchSeed)
	d := scaleDraws{rng, func() int { return 10 * rng.randint(1, 21) }, func() float64 { return float64(rng.randint(1, 16)) / 10 }}
	for _, m := range slices.Concat(PaperModels, []string{DeepESN}) {
		if list := d.list(m, length); m == model {
			return list
		}
	}
	return nil
}

// scaleDraws draws configurations of reservoirs from the published program's
// generator, in the order in which that program does.
type scaleDraws struct {
	rng    *randomState
	units  func() int
	radius func() float64 // of leaky networks
}

func (d scaleDraws) list(model string, n int) []Scales {
	list := make([]Scales, n)
	for i := range list {
		list[i] = d.scales(model)
	}
	return list
}

func (d scaleDraws) scales(model string) Scales {
	wide := func() float64 { return decade(d.rng.randint(-5, 1)) }
	scale := func() float64 { return decade(d.rng.randint(-3, 2)) }
	switch model {
	case string(reservoir.EuSN):
		return Scales{Units: d.units(), Gamma: wide(), Eps: wide(), Input: scale(), Recurrent: scale(), Bias: scale()}
	case DeepESN:
		layers := d.rng.randint(2, 6)
		c := d.scales(string(reservoir.ESN))
		c.Layers = layers
		return c
	}
	return Scales{Units: d.units(), Leak: wide(), Input: scale(), SpectralRadius: d.radius(), Bias: scale()}
}

// decade is 10^n, correctly rounded.
func decade(n int) float64 {
	return [...]float64{1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10}[n+5]
}
