package enginetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// bankSpec is a recipe with every option enabled.
func bankSpec(channels, members, units int) reservoir.Spec {
	return reservoir.Spec{
		Arithmetic: reservoir.Arithmetic, Kind: reservoir.EuSN, Channels: channels, Members: members, Units: units, Seed: 11,
		Precision: reservoir.Float32, Standardize: true, Difference: true, Subset: 9, Features: reservoir.AllFeatures,
		Eps: reservoir.Dist{Lo: 1e-3, Hi: 1}, Gamma: reservoir.Dist{Lo: 1e-4, Hi: 1e-1}, EpsRho: reservoir.Dist{Lo: 1e-2, Hi: .2},
		Input: reservoir.Dist{Lo: .03, Hi: 3}, Bias: reservoir.Dist{Lo: .01, Hi: 3},
	}
}

// singleSpec is the paper's network; kind selects one of its three reservoirs.
func singleSpec(kind reservoir.Kind, channels, units int) reservoir.Spec {
	s := reservoir.Spec{
		Arithmetic: reservoir.Arithmetic, Kind: kind, Channels: channels, Members: 1, Units: units, Seed: 5,
		Precision: reservoir.Float32, Features: []reservoir.Feature{reservoir.Last}, Input: reservoir.Fixed(1), Bias: reservoir.Fixed(.1),
	}
	if kind == reservoir.EuSN {
		s.Eps, s.Gamma, s.Recurrent = reservoir.Fixed(.1), reservoir.Fixed(.01), reservoir.Fixed(1)
	} else {
		s.SpectralRadius, s.Leak = reservoir.Fixed(.9), reservoir.Fixed(.3)
	}
	return s
}

// drawNetwork accepts a recipe without Input as well, which reservoir.Draw refuses.
func drawNetwork(t testing.TB, s reservoir.Spec) *reservoir.Network {
	t.Helper()
	blind := s.Input == reservoir.Dist{}
	if blind {
		s.Input = reservoir.Fixed(1)
	}
	net, err := reservoir.Draw(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range net.Members {
		if blind {
			clear(m.Input)
		}
	}
	for c := range s.Channels {
		net.Norm.Mean[c] = float32(c%5)/4 - .5
		net.Norm.Scale[c] = 1 + float32(c%7)/8
		net.Norm.Diff[c] = 2 - float32(c%3)/3
	}
	return net
}

// limitedReadout is random and limits its features: about a third of the features in use,
// some always limited, some never.
func limitedReadout(rng *rand.Rand, name string, classes, features int) *readout.Linear {
	h := randomReadout(rng, name, classes, features)
	h.Limit = make([]float32, features)
	for i := range h.Limit {
		h.Limit[i] = float32(math.Exp(2 * rng.NormFloat64()))
		if rng.IntN(20) == 0 {
			h.Limit[i] = math.MaxFloat32
		}
	}
	return h
}

// randomReadout has no meaning, only weights of every magnitude.
func randomReadout(rng *rand.Rand, name string, classes, features int) *readout.Linear {
	h := &readout.Linear{Name: name}
	for c := range classes {
		h.Classes = append(h.Classes, fmt.Sprint(c))
	}
	fill := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	h.Center, h.Weights, h.Intercept = fill(features), fill(h.Columns()*features), fill(h.Columns())
	return h
}

func randomInputs(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64() * math.Exp(rng.NormFloat64()))
		if rng.IntN(50) == 0 {
			v[i] = 0
		}
	}
	return v
}

// randomRuns splits samples into ragged runs, with empty runs and repeated slots; some
// runs share samples, which is allowed.
func randomRuns(rng *rand.Rand, slots, samples int) []reservoir.Run {
	var runs []reservoir.Run
	for at := 0; at < samples; {
		n := min(rng.IntN(9)*rng.IntN(4), samples-at)
		runs = append(runs, reservoir.Run{
			Slot: int32(rng.IntN(slots)), Reset: rng.IntN(6) == 0, Emit: rng.IntN(2) == 0, From: int32(at), To: int32(at + n),
		})
		at += n
		if rng.IntN(8) == 0 {
			at = max(0, at-2)
		}
	}
	return runs
}

// randomDetector has the given number of directions, and reads the given number of input
// values.
func randomDetector(rng *rand.Rand, dimensions, inputs, features int) *novelty.Detector {
	fill := func(n int, scale float64) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = float32(rng.NormFloat64() * scale)
		}
		return v
	}
	short := 1 / math.Sqrt(float64(features*dimensions)) // leaves a residual
	return &novelty.Detector{Center: fill(features, 1), Scale: fill(features, 1), Axes: fill(dimensions*features, short),
		Inputs: fill(inputs*features, 1), Left: []float32{1}, Unit: .5, Level: .5}
}
