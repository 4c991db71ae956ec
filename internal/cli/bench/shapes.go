package bench

import (
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// benchShape is the shape of a row of results.
type benchShape struct {
	recipe                 string // one of reservoir.Banks, with members and units
	members, units, inputs int    // members 0: one network as in the paper
	streams, steps         int
	random                 bool
}

// defaultShapes are the shapes in the project's goals for the CPU.
var defaultShapes = []benchShape{
	{units: 100, inputs: 6, streams: 1024, steps: 128},
	{units: 200, inputs: 1, streams: 1024, steps: 128},
	{units: 50, inputs: 3, streams: 4096, steps: 128},
	{units: 100, inputs: 6, streams: 32, steps: 128},
	{units: 100, inputs: 6, streams: 32, steps: 1},
	{units: 100, inputs: 6, streams: 16, steps: 128},
	{units: 100, inputs: 6, streams: 16, steps: 1},
	{units: 100, inputs: 6, streams: 1, steps: 128},
	{units: 100, inputs: 6, streams: 1, steps: 1},
	{units: 100, inputs: 6, streams: 1 << 17, steps: 1, random: true}, // states from main memory
	{members: 40, units: 50, inputs: 4, streams: 1024, steps: 32},
	{members: 40, units: 50, inputs: 4, streams: 1, steps: 1},
	{recipe: "euler", inputs: 2, streams: 16, steps: 32},
	{recipe: "euler", inputs: 2, streams: 1, steps: 1},
	{recipe: "standard", inputs: 2, streams: 16, steps: 32},
	{recipe: "standard", inputs: 2, streams: 1, steps: 1},
	{recipe: "large", inputs: 2, streams: 16, steps: 32},
	{recipe: "large", inputs: 2, streams: 1, steps: 1},
	{recipe: "small", inputs: 2, streams: 16, steps: 32},
	{recipe: "small", inputs: 2, streams: 1, steps: 1},
	{recipe: "tiny", inputs: 2, streams: 16, steps: 32},
	{recipe: "tiny", inputs: 2, streams: 1, steps: 1},
}

// slowShape is for the engine without vector instructions: calls with a default shape would take seconds.
var slowShape = benchShape{units: 100, inputs: 6, streams: 16, steps: 16}

// medianLength is the length of sequences for completing a recipe: its largest lag is then the largest lag of
// training, 64 samples.
const medianLength = 256

// spec is the network's recipe. The recipe of a bank's name comes from package reservoir; other recipes have the
// sizes of the shape.
func (s benchShape) spec() (reservoir.Spec, error) {
	if s.recipe != "" {
		spec, err := reservoir.Bank(s.recipe, s.inputs/2)
		return spec.ForLength(medianLength), err
	}
	spec := reservoir.Spec{
		Arithmetic: reservoir.Arithmetic, Kind: reservoir.EuSN, Channels: s.inputs, Members: max(1, s.members), Units: s.units, Seed: 1,
		Precision: reservoir.Float32, Features: []reservoir.Feature{reservoir.Last},
		Eps: reservoir.Fixed(.01), Gamma: reservoir.Fixed(.001), Input: reservoir.Fixed(1), Bias: reservoir.Fixed(1),
	}
	if s.members == 0 {
		spec.Recurrent = reservoir.Fixed(.1)
		return spec, nil
	}
	spec.Channels, spec.Standardize, spec.Difference = s.inputs/2, true, true
	spec.Features, spec.EpsRho = reservoir.AllFeatures, reservoir.Dist{Lo: .01, Hi: .2}
	return spec, nil
}

// draw is the network of the shape.
func (s benchShape) draw() (*reservoir.Network, error) {
	spec, err := s.spec()
	if err != nil {
		return nil, err
	}
	return reservoir.Draw(spec)
}

// shapes are the default shapes, or every combination of the flags' values.
func (o *benchOptions) shapes(k benchKind) []benchShape {
	if !o.reshaped() {
		if k.slow {
			return []benchShape{slowShape}
		}
		return defaultShapes
	}
	or := func(given []int, one int) []int {
		if len(given) > 0 {
			return given
		}
		return []int{one}
	}
	var all []benchShape
	for _, base := range o.bases() {
		for _, units := range or(o.units, base.units) {
			for _, inputs := range or(o.inputs, base.inputs) {
				for _, streams := range or(o.streams, base.streams) {
					for _, steps := range or(o.steps, base.steps) {
						all = append(all, benchShape{base.recipe, base.members, units, inputs, streams, steps, o.random})
					}
				}
			}
		}
	}
	return all
}

// bases are the networks of the flags, each with defaults for missing flags.
func (o *benchOptions) bases() []benchShape {
	switch {
	case len(o.recipes) > 0:
		var all []benchShape
		for _, name := range o.recipes {
			all = append(all, benchShape{recipe: name, inputs: 2, streams: 16, steps: 32})
		}
		return all
	case o.bank > 0:
		return []benchShape{{members: o.bank, units: 50, inputs: 4, streams: 1024, steps: 32}}
	}
	return defaultShapes[:1]
}
