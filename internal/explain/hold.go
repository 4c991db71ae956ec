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

// mostHeld is the maximum number of values that are recomputed for stretches.
const mostHeld = 1 << 24

// HeldChannel is the prediction with one channel at its training mean in all samples.
type HeldChannel struct {
	Channel string  `json:"channel"`
	Value   float32 `json:"value"`
	HeldResult
}

// HeldResult is the prediction with a part of the sequence at its training mean.
type HeldResult struct {
	Class      string  `json:"class"`      // predicted class
	Difference float64 `json:"difference"` // between the scores of the two classes
	Change     float64 `json:"change"`     // of this difference; negative: the held part supports the class
}

// Stretch is a part of the samples, and the prediction with this part at the channels' training
// means.
type Stretch struct {
	From int `json:"from"` // first sample at the network's input, from 0
	To   int `json:"to"`   // exclusive end
	HeldResult
	Channels []float64 `json:"change_by_channel,omitempty"` // change with one channel held in this part, in the order of Explanation.Held; none if the computation is too large
}

// holder recomputes a sequence with a part at the training means.
type holder struct {
	m      *predictionModel
	engine reservoir.Engine
	s      *Score
	scores []float32
	x      []float32 // the sequence
	part   []float32 // with a held part
}

func (h *holder) channels() int { return len(h.m.job.Model.Channels) }

func (h *holder) computeScores(ctx context.Context, x []float32) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	run := reservoir.Run{Reset: true, Emit: true, To: int32(len(x) / h.channels())}
	if err := h.engine.Advance(x, []reservoir.Run{run}, h.scores); err != nil {
		return fmt.Errorf("explain: %w", err)
	}
	return nil
}

// computeHeld holds the channels [first, end) in the samples [from, to).
func (h *holder) computeHeld(ctx context.Context, from, to, first, end int) (w HeldResult, err error) {
	n := h.channels()
	h.part = append(h.part[:0], h.x...)
	for i := from; i < to; i++ {
		copy(h.part[i*n+first:i*n+end], h.m.job.Model.Network.Norm.Mean[first:end])
	}
	if err := h.computeScores(ctx, h.part); err != nil {
		return w, err
	}
	class, other := h.s.pair.parts(func(c int) float64 { return float64(h.scores[c]) })
	l := h.m.linear
	return HeldResult{Class: l.Classes[l.Class(h.scores)], Difference: class - other, Change: class - other - h.s.Score.Difference}, nil
}

// holdChannels recomputes a sequence once for each channel held at its training mean, and once for
// each stretch of the samples. now are its scores; why is the reason for a missing result.
func (m *predictionModel) holdChannels(ctx context.Context, q *replay.Sequence, s *Score, now []float32, stretches int) (all []HeldChannel, parts []Stretch, why string, err error) {
	model := m.job.Model
	switch {
	case !q.Whole:
		return nil, nil, "the sequence began before what was read", nil
	case q.Kept.More:
		return nil, nil, fmt.Sprintf("the sequence is longer than %d values", keptValues), nil
	case !model.Network.Spec.Standardize:
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
	h := &holder{m: m, engine: engine, s: s, scores: make([]float32, m.linear.Columns()), x: q.Kept.X}
	if err := h.computeScores(ctx, h.x); err != nil || !sameBits(h.scores, now) { // nothing held
		return nil, nil, "the sequence by itself does not give the same scores", err
	}
	for c, name := range model.Channels {
		w, err := h.computeHeld(ctx, 0, len(h.x)/h.channels(), c, c+1)
		if err != nil {
			return nil, nil, "", err
		}
		all = append(all, HeldChannel{Channel: name, Value: model.Network.Norm.Mean[c], HeldResult: w})
	}
	parts, err = h.holdStretches(ctx, stretches)
	return all, parts, "", err
}

// divideEvenly divides samples into at most the given number of parts whose lengths differ by at
// most one, so that their changes are comparable. It returns the start of each part, and the end.
func divideEvenly(samples, most int) []int {
	long := (samples + most - 1) / most
	many := (samples + long - 1) / long
	ends := make([]int, many+1)
	for k := range ends {
		ends[k] = samples * k / many
	}
	return ends
}

// holdStretches holds each of at most the given number of parts of the samples.
func (h *holder) holdStretches(ctx context.Context, most int) (parts []Stretch, err error) {
	n, samples := h.channels(), len(h.x)/h.channels()
	most = min(most, mostHeld/max(1, len(h.x)))
	if most < 1 || samples == 0 {
		return nil, nil
	}
	ends := divideEvenly(samples, most)
	byChannel := n > 1 && (n+1)*most <= mostHeld/len(h.x)
	for k, to := range ends[1:] {
		p := Stretch{From: ends[k], To: to}
		if p.HeldResult, err = h.computeHeld(ctx, p.From, p.To, 0, n); err != nil {
			return nil, err
		}
		for c := 0; byChannel && c < n; c++ {
			w, err := h.computeHeld(ctx, p.From, p.To, c, c+1)
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

// valuesOf returns the samples of a sequence at the network's input, if complete.
func valuesOf(q *replay.Sequence) []float32 {
	if !q.Whole || q.Kept.More {
		return nil
	}
	return slices.Clone(q.Kept.X)
}
