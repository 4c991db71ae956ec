package baseline

import (
	"cmp"
	"context"
	"slices"
)

// Predict gives the class of each series, whatever its own is.
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
			batch[k] = Series{Values: series[i].Values} // loss wants some class, and changes nothing by it
		}
		n.tape.load(n.layout, batch)
		n.forward()
		for k, i := range part {
			_, classes[i] = n.loss(k, 0)
		}
	}
	return classes, nil
}
