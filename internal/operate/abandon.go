package operate

import (
	"context"
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// abandonChange ends a change before the server's mapping has changed, or before any
// state of another job is published: any worker may claim the previous partitions. A
// parallel change ends.
func (j *change) abandonChange(ctx context.Context) error {
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
		if err := j.noteStep(ctx, r); err != nil {
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
	return j.noteStep(ctx, back)
}

// giveBack restores the previous generation in a partition's record. A record is written
// even if the generation was never raised: the server then refuses a late write of a
// parallel change based on the previous entry.
func (j *change) giveBack(ctx context.Context, p int) error {
	r := j.entry.Resize
	info, err := j.in.Info(ctx, 0)
	if err != nil {
		return err
	}
	if j.checkBegun(ctx, p) != nil { // a change does not write it either
		return nil
	}
	var found uint64
	looked := false
	return j.rewriteRecord(ctx, p, func(now *wire.Record, seq uint64) bool {
		if !looked {
			found, looked = seq, true
		}
		if now.Generation == r.Generation && seq > found {
			return false
		}
		if seq == 0 {
			*now = j.firstRecord(info.Created)
		}
		now.Kind, now.Generation = wire.KindReleased, r.Generation
		now.Epoch++
		return true
	})
}
