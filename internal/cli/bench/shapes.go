package bench

import (
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// benchShape is what one row of results is about.
type benchShape struct {
	members, units, inputs int // members 0: one network as in the paper
	streams, steps         int
	random                 bool
}

// defaultShapes are those that the project's goals for the CPU name.
var defaultShapes = []benchShape{
	{0, 100, 6, 1024, 128, false},
	{0, 200, 1, 1024, 128, false},
	{0, 50, 3, 4096, 128, false},
	{0, 100, 6, 32, 128, false},
	{0, 100, 6, 32, 1, false},
	{0, 100, 6, 16, 128, false},
	{0, 100, 6, 16, 1, false},
	{0, 100, 6, 1, 128, false},
	{0, 100, 6, 1, 1, false},
	{0, 100, 6, 1 << 17, 1, true}, // states from main memory
	{40, 50, 4, 1024, 32, false},
	{40, 50, 4, 1, 1, false},
}

// slowShape is for the engine without vector instructions, whose calls of the
// others would take seconds.
var slowShape = benchShape{0, 100, 6, 16, 16, false}

func (s benchShape) flops() float64 {
	return 2 * float64(max(1, s.members)) * float64(s.units) * float64(s.units+s.inputs)
}

func (s benchShape) spec() reservoir.Spec {
	spec := reservoir.Spec{
		Arithmetic: reservoir.Arithmetic, Kind: reservoir.EuSN, Channels: s.inputs, Members: max(1, s.members), Units: s.units, Seed: 1,
		Precision: reservoir.Float32, Features: []reservoir.Feature{reservoir.Last},
		Eps: reservoir.Fixed(.01), Gamma: reservoir.Fixed(.001), Input: reservoir.Fixed(1), Bias: reservoir.Fixed(1),
	}
	if s.members == 0 {
		spec.Recurrent = reservoir.Fixed(.1)
		return spec
	}
	spec.Channels, spec.Standardise, spec.Difference = s.inputs/2, true, true
	spec.Features, spec.EpsRho = reservoir.AllFeatures, reservoir.Dist{Lo: .01, Hi: .2}
	return spec
}

// shapes are the default ones, or every combination of what the flags say.
func (o *benchOptions) shapes(k benchKind) []benchShape {
	if !o.reshaped() {
		if k.slow {
			return []benchShape{slowShape}
		}
		return defaultShapes
	}
	base := defaultShapes[0]
	if o.bank > 0 {
		base = benchShape{o.bank, 50, 4, 1024, 32, false}
	}
	or := func(given []int, one int) []int {
		if len(given) > 0 {
			return given
		}
		return []int{one}
	}
	var all []benchShape
	for _, units := range or(o.units, base.units) {
		for _, inputs := range or(o.inputs, base.inputs) {
			for _, streams := range or(o.streams, base.streams) {
				for _, steps := range or(o.steps, base.steps) {
					all = append(all, benchShape{o.bank, units, inputs, streams, steps, o.random})
				}
			}
		}
	}
	return all
}
