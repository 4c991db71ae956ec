package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// mostHeld is how many values are computed once more at most, for stretches.
const mostHeld = 1 << 24

// Held is what the prediction would be if a channel had its training mean in all
// samples.
type Held struct {
	Channel string  `json:"channel"`
	Value   float32 `json:"value"`
	Without
}

// Without is what a sequence would be predicted as if something in it were at its
// training mean.
type Without struct {
	Class      string  `json:"class"`      // that would be predicted
	Difference float64 `json:"difference"` // between the scores of the two classes then
	Change     float64 `json:"change"`     // of that difference; negative: what was held speaks for the class
}

// Stretch is a part of the samples, and what the prediction would be if these were at
// the channels' training means.
type Stretch struct {
	From int `json:"from"` // the first of the samples that the network got, from 0
	To   int `json:"to"`   // behind the last
	Without
	Channels []float64 `json:"change_by_channel,omitempty"` // the change with one channel held there, in the order of Explanation.Held; none where that is too much to compute
}

// holding computes a sequence once more with a part of it at the training means.
type holding struct {
	m      *models
	engine reservoir.Engine
	s      *Score
	scores []float32
	x      []float32 // the sequence
	part   []float32 // with something held
}

func (h *holding) channels() int { return len(h.m.job.Model.Channels) }

func (h *holding) compute(ctx context.Context, x []float32) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	run := reservoir.Run{Reset: true, Emit: true, To: int32(len(x) / h.channels())}
	if err := h.engine.Advance(x, []reservoir.Run{run}, h.scores); err != nil {
		return fmt.Errorf("explain: %w", err)
	}
	return nil
}

// without holds the channels [first, end) in the samples [from, to).
func (h *holding) without(ctx context.Context, from, to, first, end int) (w Without, err error) {
	n := h.channels()
	h.part = append(h.part[:0], h.x...)
	for i := from; i < to; i++ {
		copy(h.part[i*n+first:i*n+end], h.m.job.Model.Network.Norm.Mean[first:end])
	}
	if err := h.compute(ctx, h.part); err != nil {
		return w, err
	}
	class, other := h.s.pair.of(func(c int) float64 { return float64(h.scores[c]) })
	l := h.m.linear
	return Without{Class: l.Classes[l.Class(h.scores)], Difference: class - other, Change: class - other - h.s.Score.Difference}, nil
}

// hold computes a sequence once more for each channel, with that channel at its
// training mean, and for each of some stretches of the samples. now are its scores; why
// says why there is nothing of it.
func (m *models) hold(ctx context.Context, q *replay.Sequence, s *Score, now []float32, stretches int) (all []Held, parts []Stretch, why string, err error) {
	model := m.job.Model
	switch {
	case !q.Whole:
		return nil, nil, "the sequence began before what was read", nil
	case q.Kept.More:
		return nil, nil, fmt.Sprintf("the sequence is longer than %d values", keptValues), nil
	case !model.Network.Spec.Standardise:
		return nil, nil, "the model does not know the channels' means in training", nil
	}
	engine, err := m.job.NewEngine(model.Network, 1)
	if err != nil {
		return nil, nil, "", fmt.Errorf("explain: %w", err)
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	if err := engine.SetReadouts([]*readout.Linear{m.linear}); err != nil {
		return nil, nil, "", fmt.Errorf("explain: %w", err)
	}
	h := &holding{m: m, engine: engine, s: s, scores: make([]float32, m.linear.Columns()), x: q.Kept.X}
	if err := h.compute(ctx, h.x); err != nil || !sameBits(h.scores, now) { // nothing is held
		return nil, nil, "the sequence by itself does not give the same scores", err
	}
	for c, name := range model.Channels {
		w, err := h.without(ctx, 0, len(h.x)/h.channels(), c, c+1)
		if err != nil {
			return nil, nil, "", err
		}
		all = append(all, Held{Channel: name, Value: model.Network.Norm.Mean[c], Without: w})
	}
	parts, err = h.stretches(ctx, stretches)
	return all, parts, "", err
}

// evenly divides samples into at most so many parts whose lengths differ by one at most,
// so that what they change can be compared. It gives where each begins, and the end.
func evenly(samples, most int) []int {
	long := (samples + most - 1) / most
	many := (samples + long - 1) / long
	ends := make([]int, many+1)
	for k := range ends {
		ends[k] = samples * k / many
	}
	return ends
}

// stretches holds each of at most so many parts of the samples.
func (h *holding) stretches(ctx context.Context, most int) (parts []Stretch, err error) {
	n, samples := h.channels(), len(h.x)/h.channels()
	most = min(most, mostHeld/max(1, len(h.x)))
	if most < 1 || samples == 0 {
		return nil, nil
	}
	ends := evenly(samples, most)
	byChannel := n > 1 && (n+1)*most <= mostHeld/len(h.x)
	for k, to := range ends[1:] {
		p := Stretch{From: ends[k], To: to}
		if p.Without, err = h.without(ctx, p.From, p.To, 0, n); err != nil {
			return nil, err
		}
		for c := 0; byChannel && c < n; c++ {
			w, err := h.without(ctx, p.From, p.To, c, c+1)
			if err != nil {
				return nil, err
			}
			p.Channels = append(p.Channels, w.Change)
		}
		parts = append(parts, p)
	}
	if n == 1 {
		for i := range parts {
			parts[i].Channels = []float64{parts[i].Change}
		}
	}
	return parts, nil
}

// valuesOf are the samples of a sequence as the network got them, if all are kept.
func valuesOf(q *replay.Sequence) []float32 {
	if !q.Whole || q.Kept.More {
		return nil
	}
	return slices.Clone(q.Kept.X)
}
