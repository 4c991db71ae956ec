package offline

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/detect"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/classify"
)

// Sequences of a kind that check a new detector, and their samples at most.
const (
	checkedSequences = 32
	checkedSamples   = 1 << 16
)

// checkedSignals are signals unlike any healthy data, in units of a channel's deviation about its mean; zero is the
// value 0.
var checkedSignals = []struct {
	name   string
	zero   bool
	signal func(rng *rand.Rand) func(i int) float64
}{
	{"white noise", false, func(rng *rand.Rand) func(int) float64 { return func(int) float64 { return rng.NormFloat64() } }},
	{"zeros", true, func(*rand.Rand) func(int) float64 { return func(int) float64 { return 0 } }},
	{"a stuck value", false, func(rng *rand.Rand) func(int) float64 {
		at := 2*rng.Float64() - 1
		return func(int) float64 { return at }
	}},
	{"a square wave", false, func(rng *rand.Rand) func(int) float64 {
		half, phase := 2+rng.IntN(14), rng.IntN(28)
		return func(i int) float64 { return float64(1 - 2*((i+phase)/half%2)) }
	}},
}

// checkDetector scores signals that are at the scale of the training samples and unlike most healthy data, to report
// a detector that finds nothing. inputs are the ranges of the samples, and length is the number of samples of a
// sequence after the front end.
func checkDetector(ctx context.Context, d *novelty.Detector, net *reservoir.Network, front *reservoir.Front, inputs []reservoir.InputRange, length int) (checks []detect.Check, err error) {
	if length = max(1, length); front != nil {
		length *= max(1, front.Decimate)
	}
	n := max(1, min(checkedSequences, checkedSamples/length))
	rng := rand.New(rand.NewPCG(3, 4))
	for _, of := range checkedSignals {
		series, statistics := make([][]float32, n), make([][]float32, n)
		for i := range series {
			series[i], statistics[i] = signalOf(inputs, front, length, of.zero, func() func(int) float64 { return of.signal(rng) })
		}
		features, err := classify.Features(ctx, net, series)
		if err != nil {
			return nil, err
		}
		c := detect.Check{Signal: of.name, Sequences: n}
		i := 0
		for row := range slices.Chunk(features, d.Features()) {
			if d.Novel(d.P(d.AddMeans(d.Score(row), statistics[i]))) {
				c.Novel++
			}
			i++
		}
		checks = append(checks, c)
	}
	return checks, nil
}

// signalOf makes a sequence of network inputs, and the statistics of the front end.
func signalOf(inputs []reservoir.InputRange, front *reservoir.Front, length int, zero bool, channel func() func(i int) float64) (x, statistics []float32) {
	width := len(inputs)
	x = make([]float32, length*width)
	for c, in := range inputs {
		signal := channel()
		for i := range length {
			v := 0.
			if !zero {
				v = in.Mean + in.Deviation*signal(i)
			}
			x[i*width+c] = float32(max(-reservoir.MaxInput, min(reservoir.MaxInput, v)))
		}
	}
	if front != nil {
		state := make([]float64, front.StateSize(width))
		x = x[:front.Run(state, 0, x, width)*width]
		statistics = make([]float32, front.StatisticsSize(width))
		front.Statistics(statistics, state, width)
	}
	return x, statistics
}
