package offline

import (
	"context"
	"errors"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/offline/bridge"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

func init() {
	bridge.Update = func(ctx context.Context, m *reservoir.Model, k bridge.Sequences, options any, progress archive.Progress) (*reservoir.Model, any, error) {
		return update(ctx, m, k, options.(RetrainOptions), progress)
	}
	bridge.CountGroups = countDataGroups
	bridge.Adapt = func(evaluation any, m *reservoir.Model, rate float64, late int) (bridge.Adapted, error) {
		return evaluation.(*Evaluation).adapt(m, rate, late)
	}
	bridge.OpenTrials = func(ctx context.Context, d archive.Data, options any) (*bridge.Trials, error) {
		return openTrials(ctx, d, options.(RetrainOptions))
	}
}

// openTrials is bridge.OpenTrials.
func openTrials(ctx context.Context, d archive.Data, opt RetrainOptions) (*bridge.Trials, error) {
	src, _, err := openTraining(ctx, d, opt)
	if err == nil {
		src.sampleSource, err = keepChunks(ctx, src.sampleSource)
	}
	if err != nil {
		return nil, err
	}
	return &bridge.Trials{
		Channels: src.channels, Classes: src.classes,
		Read: func(ctx context.Context, visit func(bridge.Samples)) error {
			return src.read(ctx, func(c *chunk) error {
				visit(bridge.Samples{Stream: c.stream, Values: c.values, Labels: learned(c), Times: c.times, Ends: c.ends})
				return nil
			})
		},
		Try: func(ctx context.Context, options any, most int) (any, error) {
			o := options.(RetrainOptions)
			o.most = most
			_, report, err := retrain(ctx, src, o.withDefaults(len(src.channels)), nil)
			return report, err
		},
	}, nil
}

// learned returns the class of each sample; of numbers 0 if the number is known, otherwise -1.
func learned(c *chunk) []int {
	if c.numbers == nil {
		return c.labels
	}
	labels := make([]int, len(c.numbers))
	for i, x := range c.numbers {
		if x != x {
			labels[i] = -1
		}
	}
	return labels
}

// mostKept bounds the values of kept chunks: 256 MiB.
const mostKept = 1 << 26

// keptChunks are the chunks of a source, in memory.
type keptChunks struct {
	sampleSource
	chunks []chunk
}

// keepChunks reads a source into memory, because several trainings read the same samples; a large source remains as it is.
func keepChunks(ctx context.Context, src sampleSource) (sampleSource, error) {
	k, values := &keptChunks{sampleSource: src}, 0
	errLarge := errors.New("too large")
	err := src.read(ctx, func(c *chunk) error {
		if values += len(c.values); values > mostKept {
			return errLarge
		}
		next := *c
		next.values, next.labels, next.times, next.ends = slices.Clone(c.values), slices.Clone(c.labels), slices.Clone(c.times), slices.Clone(c.ends)
		next.numbers, next.seqs, next.groups = slices.Clone(c.numbers), slices.Clone(c.seqs), slices.Clone(c.groups)
		next.flags, next.told = slices.Clone(c.flags), slices.Clone(c.told)
		k.chunks = append(k.chunks, next)
		return nil
	})
	if errors.Is(err, errLarge) {
		return src, nil
	}
	return k, err
}

func (k *keptChunks) read(ctx context.Context, yield func(*chunk) error) error {
	for _, c := range k.chunks {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		c.values = slices.Clone(c.values) // the reader may change these
		if err := yield(&c); err != nil {
			return err
		}
	}
	return nil
}
