package baseline

import (
	"cmp"
	"context"
	"slices"
)

// Predict returns the class of each series, ignoring Series.Class.
func (n *Network) Predict(ctx context.Context, series []Series) ([]int, error) {
	order := make([]int, len(series))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(series[b].Values), len(series[a].Values)) })
	classes := make([]int, len(series))
	for part := range slices.Chunk(order, rows) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		batch := make([]Series, len(part))
		for k, i := range part {
			batch[k] = Series{Values: series[i].Values} // loss needs a class, without effect here
		}
		n.tape.load(n.layout, batch)
		n.forward()
		for k, i := range part {
			_, classes[i] = n.loss(k, 0)
		}
	}
	return classes, nil
}
