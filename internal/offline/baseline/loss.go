package baseline

import (
	"cmp"
	"context"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/offline/descent"
)

// loss replaces row i of the scores by the gradient of its cross-entropy, times weight,
// and returns the cross-entropy and the class with the largest score.
func (n *Network) loss(i int, weight float64) (loss float64, class int) {
	t := &n.tape
	scores := t.scores.row(i)[:n.Spec.outputs()]
	t.row = t.row[:0]
	for _, v := range scores {
		t.row = append(t.row, float64(v))
	}
	loss, class = descent.CrossEntropy(t.row, t.series[i].Class, weight)
	for k, v := range t.row {
		scores[k] = float32(v)
	}
	return loss, class
}

// gradient writes the gradient of the mean loss over a batch into g, which must be zero.
func (n *Network) gradient(ctx context.Context, batch []Series, g *weights) error {
	batch = byLength(batch)
	weight := 1 / float64(len(batch))
	for part := range slices.Chunk(batch, rows) {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		n.tape.load(n.layout, part)
		n.forward()
		for i := range part {
			n.loss(i, weight)
		}
		t := &n.tape
		t.scores.part(len(part), 0, t.height-len(part), t.scores.cols).clear()
		n.backward(g)
	}
	n.finishGradient(g)
	return nil
}

// Ask returns the mean cross-entropy over series of a known class, and the number of all
// correctly classified series. A Class below 0 was not learned: such series are never
// correct, and no part of the loss.
func (n *Network) Ask(ctx context.Context, series []Series) (loss float64, correct int, err error) {
	known := slices.DeleteFunc(byLength(series), func(s Series) bool { return s.Class < 0 })
	for part := range slices.Chunk(known, rows) {
		if ctx.Err() != nil {
			return 0, 0, context.Cause(ctx)
		}
		n.tape.load(n.layout, part)
		n.forward()
		for i, s := range part {
			l, class := n.loss(i, 0)
			loss += l
			if class == s.Class {
				correct++
			}
		}
	}
	return loss / float64(len(known)), correct, nil
}

// byLength returns a sorted copy, the longest first, equal lengths in their order.
func byLength(series []Series) []Series {
	sorted := slices.Clone(series)
	slices.SortStableFunc(sorted, func(a, b Series) int { return cmp.Compare(len(b.Values), len(a.Values)) })
	return sorted
}
