package bench

import (
	"github.com/eusn-stream/eusn-stream/offline"
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
func Configurations(model string, length int) []offline.PaperScales {
	rng := newRandomState(searchSeed)
	units := func() int { return 10 * rng.randint(1, 21) }
	wide := func() float64 { return decade(rng.randint(-5, 1)) }
	scale := func() float64 { return decade(rng.randint(-3, 2)) }
	leaky := func() offline.PaperScales {
		return offline.PaperScales{
			Units: units(), Leak: wide(), Input: scale(),
			SpectralRadius: float64(rng.randint(1, 16)) / 10, Bias: scale(),
		}
	}
	for _, k := range []struct {
		model string
		draw  func() offline.PaperScales
	}{
		{string(reservoir.EuSN), func() offline.PaperScales {
			return offline.PaperScales{Units: units(), Gamma: wide(), Eps: wide(), Input: scale(), Recurrent: scale(), Bias: scale()}
		}},
		{string(reservoir.ESN), leaky},
		{string(reservoir.RESN), leaky},
		{DeepESN, func() offline.PaperScales {
			layers := rng.randint(2, 6)
			c := leaky()
			c.Layers = layers
			return c
		}},
	} {
		list := make([]offline.PaperScales, length)
		for i := range list {
			list[i] = k.draw()
		}
		if k.model == model {
			return list
		}
	}
	return nil
}

// decade is 10^n, correctly rounded.
func decade(n int) float64 {
	return [...]float64{1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10}[n+5]
}
