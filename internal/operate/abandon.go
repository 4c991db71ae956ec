package operate

import (
	"context"
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// abandon ends a change that has not reached the server's mapping, or has published
// none of another job's states: the partitions are those of before again, for any
// worker to claim. A change that runs at the same time ends.
func (j *change) abandon(ctx context.Context) error {
	if err := j.readEntry(ctx); err != nil {
		return err
	}
	r := j.entry.Resize
	switch r.Step {
	case "":
		return nil
	case wire.ResizeClaim, wire.ReplaceClaim, wire.ReplaceDrain, wire.ReplaceStore:
		if r.Step = wire.ResizeAbandon; r.With != "" {
			r.Step = wire.ReplaceAbandon
		}
		if err := j.note(ctx, r); err != nil {
			return err
		}
	case wire.ResizeAbandon, wire.ReplaceAbandon:
	default:
		return fmt.Errorf("pipeline: job %q: %w", j.name, ErrPastCut)
	}
	for p := range r.Partitions {
		if err := j.giveBack(ctx, p); err != nil {
			return err
		}
	}
	back := wire.Resize{}
	if r.Generation > 0 {
		back = wire.Resize{Generation: r.Generation, Partitions: r.Partitions}
	}
	return j.note(ctx, back)
}

// giveBack gives a partition's record the generation of before. It writes one
// also where nobody has raised it: a change that has looked at the entry of
// before may be about to, and the server refuses that then.
func (j *change) giveBack(ctx context.Context, p int) error {
	r := j.entry.Resize
	info, err := j.in.Info(ctx, 0)
	if err != nil {
		return err
	}
	if j.begun(ctx, p) != nil { // a change does not write it either
		return nil
	}
	var found uint64
	looked := false
	return j.rewrite(ctx, p, func(now *wire.Record, seq uint64) bool {
		if !looked {
			found, looked = seq, true
		}
		if now.Generation == r.Generation && seq > found {
			return false
		}
		if seq == 0 {
			*now = j.first(info.Created)
		}
		now.Kind, now.Generation = wire.KindReleased, r.Generation
		now.Epoch++
		return true
	})
}
