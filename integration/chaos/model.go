//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// policies are the policies of the runs. The lengths are short: almost every message ends
// a sequence in some stream.
var policies = map[string]reservoir.Policy{
	"marked": {Kind: reservoir.Marked},
	"early":  {Kind: reservoir.Marked, Early: 3},
	"each":   {Kind: reservoir.Marked, Early: 1},
	"count":  {Kind: reservoir.Count, Length: 5},
	"window": {Kind: reservoir.Window, Length: 12, Hop: 4},
}

// ranged is half of each channel's range in the model. Samples are drawn from -2 to 2:
// one in thirty is beyond twice this value, and is flagged.
const ranged = 0.97

// newModel has 16 units that forget almost nothing (gamma*eps is 0.001), so a lost,
// repeated or swapped sample changes every later state of its sequence; inputs depend on
// the previous sample. The readout's numbers are random: bits are compared, not accuracy.
func newModel(policy string) (*reservoir.Model, error) { return drawModel(policy, 3, 5, 3) }

// jobReadouts is the number of readouts of a job with promotions: the initial readout,
// and further readouts of the same network and classes.
const jobReadouts = 3

// withReadouts returns a model with additional readouts of other seeds.
func withReadouts(m *reservoir.Model, policy string) (*reservoir.Model, error) {
	all := *m
	all.Readouts = slices.Clone(m.Readouts)
	for which := uint64(1); which < jobReadouts; which++ {
		other, err := drawModel(policy, 3, 5+which, len(m.Readouts[0].Classes))
		if err != nil {
			return nil, err
		}
		all.Readouts = append(all.Readouts, other.Readouts[0])
	}
	return &all, nil
}

// drawModel draws a network and a readout from these seeds.
func drawModel(policy string, network, seed uint64, columns int) (*reservoir.Model, error) {
	net, err := reservoir.Draw(reservoir.Spec{
		Arithmetic: reservoir.Arithmetic, Kind: reservoir.EuSN, Channels: channels, Members: 1, Units: 16, Seed: network,
		Precision: reservoir.Float32, Difference: true, Features: []reservoir.Feature{reservoir.Last, reservoir.Mean},
		Eps: reservoir.Fixed(0.1), Gamma: reservoir.Fixed(0.01), Recurrent: reservoir.Fixed(0.4),
		Input: reservoir.Fixed(1), Bias: reservoir.Fixed(0.1),
	})
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 17))
	draw := func(n int) []float32 {
		v := make([]float32, n)
		for i := range v {
			v[i] = 2*rng.Float32() - 1
		}
		return v
	}
	var classes []string
	for c := range columns {
		classes = append(classes, fmt.Sprint("class ", c))
	}
	n := net.Spec.FeatureCount()
	linear := &readout.Linear{Name: "chaos", Classes: classes, Center: draw(n), Weights: draw(n * len(classes)), Intercept: draw(len(classes))}
	linear.Temperature = 0.75
	m := &reservoir.Model{Network: net, Readouts: []*readout.Linear{linear}, Policy: policies[policy], Channels: channelNames}
	for range channels {
		m.Training.Inputs = append(m.Training.Inputs, reservoir.InputRange{Values: 1, Min: -ranged, Max: ranged, LongestRun: 1})
	}
	return m, m.Validate()
}
