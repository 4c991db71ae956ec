package classify

import (
	"context"
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// Limits of an engine call for whole series: enough series to fill every
// vector lane, and few enough samples that a canceled call ends soon.
const (
	seriesAtOnce  = 256
	samplesAtOnce = 1 << 15
)

// Features runs each series through the network from a reset state and returns the
// features at its end: len(series) x FeatureCount values, row-major, for a
// classifier of another library. A series is row-major, too: its samples in order,
// Channels values each. Features uses all CPUs; the bits depend neither on the
// CPUs nor on the rest of the call.
//
// A series without a sample, or with a value that is not finite or beyond
// MaxInput, is refused before any run: fill in missing values first. If the recipe
// transforms its inputs, net.Norm must come from the training samples, see
// InputStatistics.
func Features(ctx context.Context, net *reservoir.Network, series [][]float32) ([]float32, error) {
	features := make([]float32, 0, len(series)*net.Spec.FeatureCount())
	err := eachBlock(ctx, net, series, func(block []float32) error {
		features = append(features, block...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return features, nil
}

// Predict classifies each series as one whole sequence with the model's first readout, and
// returns the answers in the order of the series. A series is row-major, Channels values for
// each sample; Predict applies the model's front end. An empty series, and a value that is
// not finite or beyond MaxInput, is refused before any classification. A canceled ctx ends
// the call with its cause between two series.
func Predict(ctx context.Context, m *reservoir.Model, series [][]float32) ([]outcome.Answer, error) {
	stream, err := NewStream(m)
	if err != nil {
		return nil, err
	}
	if err := checkSeries(series, m.Network.Spec.Channels); err != nil {
		return nil, err
	}
	answers := make([]outcome.Answer, len(series))
	for i, samples := range series {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		stream.Reset()
		if err := stream.Step(samples...); err != nil {
			return nil, fmt.Errorf("reservoir: series %d: %w", i, err)
		}
		answer := stream.Answer()
		answer.Scores, answer.Set, answer.Inputs = slices.Clone(answer.Scores), slices.Clone(answer.Set), slices.Clone(answer.Inputs)
		answers[i] = answer
	}
	return answers, nil
}

// eachBlock hands out the features of series, some series at a time, in order.
// They are valid until yield returns.
func eachBlock(ctx context.Context, net *reservoir.Network, series [][]float32, yield func(features []float32) error) error {
	if err := net.Validate(); err != nil {
		return err
	}
	if err := checkSeries(series, net.Spec.Channels); err != nil || len(series) == 0 {
		return err
	}
	e, err := cpu.New(net, min(len(series), seriesAtOnce), cpu.Options{})
	if err != nil {
		return err
	}
	defer e.Close()
	width := net.Spec.FeatureCount()
	features := make([]float32, e.Slots()*width)
	for len(series) > 0 {
		block := series[:min(e.Slots(), len(series))]
		series = series[len(block):]
		if err := runBlock(ctx, e, block); err != nil {
			return err
		}
		for slot := range block {
			if err := e.Features(int32(slot), features[slot*width:(slot+1)*width]); err != nil {
				return err
			}
		}
		if err := yield(features[:len(block)*width]); err != nil {
			return err
		}
	}
	return nil
}

// runBlock runs series i in slot i, from a reset state to its end.
func runBlock(ctx context.Context, e reservoir.Engine, block [][]float32) error {
	c := e.Network().Spec.Channels
	share := max(1, samplesAtOnce/len(block)) * c
	var inputs []float32
	var runs []reservoir.Run
	for at := 0; ; at += share {
		inputs, runs = inputs[:0], runs[:0]
		for slot, s := range block {
			if at >= len(s) {
				continue
			}
			from := len(inputs) / c
			inputs = append(inputs, s[at:min(at+share, len(s))]...)
			runs = append(runs, reservoir.Run{Slot: int32(slot), Reset: at == 0, From: int32(from), To: int32(len(inputs) / c)})
		}
		if len(runs) == 0 {
			return nil
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := e.Advance(inputs, runs, nil); err != nil {
			return err
		}
	}
}

// checkSeries refuses invalid series.
func checkSeries(series [][]float32, channels int) error {
	for i, s := range series {
		if len(s) == 0 || len(s)%channels != 0 {
			return fmt.Errorf("reservoir: series %d: want samples of %d values each, got %d values", i, channels, len(s))
		}
		if err := engine.CheckInputs(s, channels); err != nil {
			return fmt.Errorf("reservoir: series %d: %w", i, err)
		}
	}
	return nil
}
