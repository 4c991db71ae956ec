package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// hold computes a sequence once more for each channel, with that channel at its
// training mean. now are its scores; why says why there is nothing of it.
func (m *models) hold(ctx context.Context, q *pipeline.Sequence, s *Score, now []float32) (all []Held, why string, err error) {
	model := m.stage.Model
	n := len(model.Channels)
	switch {
	case !q.Whole:
		return nil, "the sequence began before what was read", nil
	case q.Kept.More:
		return nil, fmt.Sprintf("the sequence is longer than %d values", keptValues), nil
	case !model.Network.Spec.Standardise:
		return nil, "the model does not know the channels' means in training", nil
	}
	engine, err := m.stage.NewEngine(model.Network, 1)
	if err != nil {
		return nil, "", fmt.Errorf("explain: %w", err)
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	if err := engine.SetReadouts([]*readout.Linear{m.linear}); err != nil {
		return nil, "", fmt.Errorf("explain: %w", err)
	}
	scores := make([]float32, m.linear.Columns())
	compute := func(x []float32) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		run := reservoir.Run{Reset: true, Emit: true, To: int32(len(x) / n)}
		if err := engine.Advance(x, []reservoir.Run{run}, scores); err != nil {
			return fmt.Errorf("explain: %w", err)
		}
		return nil
	}
	if err := compute(q.Kept.X); err != nil || !sameBits(scores, now) { // no channel is held
		return nil, "the sequence by itself does not give the same scores", err
	}
	for c, name := range model.Channels {
		x := slices.Clone(q.Kept.X)
		for i := c; i < len(x); i += n {
			x[i] = model.Network.Norm.Mean[c]
		}
		if err := compute(x); err != nil {
			return nil, "", err
		}
		class, other := s.pair.of(func(c int) float64 { return float64(scores[c]) })
		all = append(all, Held{
			Channel: name, Value: model.Network.Norm.Mean[c], Class: m.linear.Classes[m.linear.Class(scores)],
			Difference: class - other, Change: class - other - s.Score.Difference,
		})
	}
	return all, "", nil
}
