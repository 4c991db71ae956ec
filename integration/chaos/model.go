//go:build linux

package main

import (
	"math/rand/v2"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// policies are the ways of cutting sequences that runs use. The lengths are
// short, so that almost every message ends a sequence somewhere.
var policies = map[string]reservoir.Policy{
	"marked": {Kind: reservoir.Marked},
	"early":  {Kind: reservoir.Marked, Early: 3},
	"count":  {Kind: reservoir.Count, Length: 5},
	"window": {Kind: reservoir.Window, Length: 12, Hop: 4},
}

// newModel has 16 units that hardly forget (gamma*eps is 0.001), so that a
// sample lost, repeated or swapped is in every later state of its sequence,
// and inputs that depend on the sample before. The readout's numbers are
// drawn: bits are compared, not accuracy.
func newModel(policy string) (*reservoir.Model, error) {
	net, err := reservoir.Draw(reservoir.Spec{
		Arithmetic: reservoir.Arithmetic, Kind: reservoir.EuSN, Channels: channels, Members: 1, Units: 16, Seed: 3,
		Precision: reservoir.Float32, Difference: true, Features: []reservoir.Feature{reservoir.Last, reservoir.Mean},
		Eps: reservoir.Fixed(0.1), Gamma: reservoir.Fixed(0.01), Recurrent: reservoir.Fixed(0.4),
		Input: reservoir.Fixed(1), Bias: reservoir.Fixed(0.1),
	})
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(5, 17))
	draw := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = 2*rng.Float32() - 1
		}
		return v
	}
	classes := []string{"calm", "rising", "falling"}
	n := net.Spec.FeatureCount()
	head := &readout.Linear{Name: "chaos", Classes: classes, Center: draw(n), Weights: draw(n * len(classes)), Intercept: draw(len(classes))}
	m := &reservoir.Model{Network: net, Heads: []*readout.Linear{head}, Policy: policies[policy], Channels: channelNames}
	return m, m.Validate()
}
