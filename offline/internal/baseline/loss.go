package baseline

import (
	"cmp"
	"context"
	"slices"

	"github.com/eusn-stream/eusn-stream/offline/internal/descent"
)

// loss turns row i of the scores into the gradient of its cross-entropy, times
// weight, and returns the cross-entropy and the class with the largest score.
func (n *Network) loss(i int, weight float64) (loss float64, class int) {
	return descent.CrossEntropy(n.tape.scores.Row(i), n.tape.series[i].Class, weight)
}

// gradient adds that of the mean loss over a batch to g.
func (n *Network) gradient(ctx context.Context, batch []Series, g *weights) error {
	batch = byLength(batch)
	weight := 1 / float64(len(batch))
	for part := range slices.Chunk(batch, rows) {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		n.tape.load(n.Spec, part)
		n.forward()
		for i := range part {
			n.loss(i, weight)
		}
		for i := len(part); i < rows; i++ {
			clear(n.tape.scores.Row(i))
		}
		n.backward(g)
	}
	return nil
}

// Ask gives the mean cross-entropy over series whose class is known, and the
// number of all series that are given their class. A Class below 0 is none that
// was learnt: never right, and no part of the loss.
func (n *Network) Ask(ctx context.Context, series []Series) (loss float64, correct int, err error) {
	known := slices.DeleteFunc(byLength(series), func(s Series) bool { return s.Class < 0 })
	for part := range slices.Chunk(known, rows) {
		if ctx.Err() != nil {
			return 0, 0, context.Cause(ctx)
		}
		n.tape.load(n.Spec, part)
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

// byLength is a copy, the longest first, otherwise in the old order.
func byLength(series []Series) []Series {
	sorted := slices.Clone(series)
	slices.SortStableFunc(sorted, func(a, b Series) int { return cmp.Compare(len(b.Values), len(a.Values)) })
	return sorted
}
