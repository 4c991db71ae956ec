package pipelinetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// Model has 12 units, two channels, difference inputs (so that every sample depends on
// the previous sample) and a readout of random numbers: tests compare bits, not accuracy.
func Model(t testing.TB, classes int, policy reservoir.Policy) *reservoir.Model {
	t.Helper()
	return Bank(t, 1, 7, classes, policy)
}

// Bank is Model with several networks, drawn from another seed.
func Bank(t testing.TB, members int, seed uint64, classes int, policy reservoir.Policy) *reservoir.Model {
	t.Helper()
	net, err := reservoir.Draw(reservoir.Spec{
		Arithmetic: reservoir.Arithmetic, Kind: reservoir.EuSN, Channels: 2, Members: members, Units: 12, Seed: seed,
		Precision: reservoir.Float32, Standardize: true, Difference: true,
		Features: []reservoir.Feature{reservoir.Last, reservoir.Mean},
		Eps:      reservoir.Fixed(0.1), Gamma: reservoir.Fixed(0.01), Recurrent: reservoir.Fixed(0.5),
		Input: reservoir.Fixed(1), Bias: reservoir.Fixed(0.1),
	})
	if err != nil {
		t.Fatal(err)
	}
	net.Norm = reservoir.Norm{Mean: []float32{0.25, -0.5}, Scale: []float32{1.5, 0.75}, Diff: []float32{2, 1}}
	rng := rand.New(rand.NewPCG(11, 13))
	columns := classes
	if classes == 2 {
		columns = 1
	}
	f := net.Spec.FeatureCount()
	linear := &readout.Linear{Name: "test", Center: Noise(rng, f), Weights: Noise(rng, f*columns), Intercept: Noise(rng, columns)}
	for c := range classes {
		linear.Classes = append(linear.Classes, fmt.Sprintf("c%d", c))
	}
	m := &reservoir.Model{Network: net, Readouts: []*readout.Linear{linear}, Policy: policy, Channels: []string{"x", "y"}}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	return m
}

// Detector returns a detector of random numbers with the given number of directions, for
// a readout of the model. In these tests its p-values span the whole range, from the
// smallest to the largest.
func Detector(m *reservoir.Model, dimensions int) *novelty.Detector {
	rng := rand.New(rand.NewPCG(17, uint64(dimensions)))
	f := m.Network.Spec.FeatureCount()
	d := &novelty.Detector{Center: Noise(rng, f), Scale: Noise(rng, f), Axes: Noise(rng, dimensions*f), Unit: 2, Level: .3, Left: make([]float32, 19), Usual: &novelty.Usual{Most: .25, Linear: []float32{1}, Square: []float32{-.5}}}
	for i := range d.Axes {
		d.Axes[i] /= float32(f) // shorter than a trained direction, to leave a residual
	}
	d.Inputs = Noise(rng, 3*len(m.Channels)*f)
	for i := range d.Left {
		d.Left[i] = 1.2 + float32(i)/16
	}
	return d
}

// Ranged adds the fields of a trained model: ranges of the channels, which some values of
// recordings exceed, and a temperature.
func Ranged(m *reservoir.Model) *reservoir.Model {
	m.Training.Inputs = []reservoir.InputRange{{Values: 1, Min: -.5, Max: .47, LongestRun: 1}, {Values: 1, Min: -.5, Max: .5, LongestRun: 1}}
	m.Readouts[0].Temperature = 1.5
	return m
}

// Timed adds a sampling rate to a model: the silences of recordings are no jumps, but
// with many silences or none the rate differs.
func Timed(m *reservoir.Model) *reservoir.Model {
	m.Training.Rate, m.Training.LongestInterval = 500, 9e6
	return m
}

// Fronted adds a front end that the model's policy allows. As in a trained model, the
// constants for missing values belong to the front end.
func Fronted(m *reservoir.Model) *reservoir.Model {
	d := 3
	for p := m.Policy; p.Kind == reservoir.Window && p.Hop%d != 0 || p.Kind == reservoir.Count && p.Length%d != 0; {
		d--
	}
	if d == 1 {
		d = 0
	}
	m.Front = &reservoir.Front{Normalize: 9, Envelope: 2, Decimate: d, Fill: []float32{.375, -.125}}
	return m
}

// Segmented adds segments to a model of the policy count with a length divisible by 4, and a
// readout that only reads segments.
func Segmented(m *reservoir.Model) *reservoir.Model {
	m.Front = &reservoir.Front{Decimate: 2, Fill: []float32{.375, -.125}, Segments: &reservoir.Segments{Count: 2, Length: m.Policy.Length / 4}}
	l, rng, n := m.Readouts[0], rand.New(rand.NewPCG(7, 8)), m.Front.StatisticsSize(2)
	clear(l.Weights)
	l.Segments = &readout.SegmentWeights{Center: Noise(rng, n), Limit: slices.Repeat([]float32{.5}, n), Weights: Noise(rng, n*l.Columns())}
	return m
}

// Regimed adds two operating regimes, which the first channel selects; some samples of
// Recordings are far from both.
func Regimed(m *reservoir.Model) *reservoir.Model {
	m.Front = &reservoir.Front{Fill: []float32{.375, -.125}, Regimes: &reservoir.Regimes{
		Settings: []int{0}, Mean: []float64{0}, Scale: []float64{1}, Centers: [][]float64{{-.5}, {.5}}, Reach: []float64{.45, .5},
		Means: [][]float32{{0, .25}, {0, -.5}}, Scales: [][]float32{{0, 2}, {0, .5}},
	}}
	return m
}

// Behind returns the network's input for samples [from, to) of a stream of two channels,
// by definition: the output of the front end for the sequence by itself; for overlapping
// windows, for the stream.
func Behind(m *reservoir.Model, x []float32, from, to int) []float32 {
	if m.Front == nil {
		return x[2*from : 2*to]
	}
	begin := from
	if m.Policy.Kind == reservoir.Window {
		begin = 0
	}
	all := slices.Clone(x[2*begin : 2*to])
	all = all[:2*m.Front.Run(make([]float64, m.Front.StateSize(2)), 0, all, 2)]
	return all[2*int(m.Front.Out(int64(from-begin))):]
}

// Unlike returns the flags that a sequence's samples must get, by the definition of
// package monitor.
func Unlike(m *reservoir.Model, x []float32) (f outcome.Flag) {
	for c, r := range m.Training.Inputs {
		run := 0
		for i := c; i < len(x); i += 2 {
			if margin := (r.Max - r.Min) / 2; x[i] < r.Min-margin || x[i] > r.Max+margin {
				f |= outcome.FlagOutOfRange
			}
			if run++; i >= 2 && x[i] != x[i-2] {
				run = 1
			}
			if run > max(8, 2*r.LongestRun) {
				f |= outcome.FlagFlat
			}
		}
	}
	if m.Front != nil && m.Front.Regimes != nil {
		for i := 0; i < len(x); i += 2 {
			if v := float64(x[i]); v < -.95 || v > -.05 && v <= 0 || v > 1 { // beyond the reach of the nearest center
				f |= outcome.FlagOutOfRange
			}
		}
	}
	return f
}

func Noise(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = rng.Float32()*2 - 1
	}
	return v
}

func Generic(net *reservoir.Network, slots int) (reservoir.Engine, error) {
	return cpu.New(net, slots, cpu.Options{Kind: cpu.Generic})
}

var NaN = float32(math.NaN())

// otherwise is a real engine with another reported arithmetic.
type otherwise struct {
	reservoir.Engine
	name string
}

func (o otherwise) Arithmetic() string { return o.name }

// InArithmetic returns a constructor of engines like Generic with another reported
// arithmetic.
func InArithmetic(name string) func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
	return func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		e, err := cpu.New(net, slots, cpu.Options{Kind: cpu.Generic})
		return otherwise{e, name}, err
	}
}

// Abstaining adds a rule to a readout: some predictions become answers.
func Abstaining(l *readout.Linear) {
	l.Temperature, l.Abstain = .5, &readout.AbstainRule{MaxError: .02, Confidence: .95, Above: .7}
}

// Deciding adds a second readout for prefixes, and a rule to accept some prefixes.
func Deciding(l *readout.Linear) {
	of := *l
	of.Coverage, of.Abstain, of.Novelty = nil, nil, nil
	of.Temperature, of.Weights = .5, Noise(rand.New(rand.NewPCG(3, 9)), len(l.Weights))
	l.Prefixes = &readout.Prefixes{Linear: &of, Rule: readout.EarlyRule{Length: 20, Coefficients: [4]float64{-1, .5, .7, .25}, Most: .3}}
}
