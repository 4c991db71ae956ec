package owner

import (
	"context"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// IsDrained reports whether the partition has answered all input up to its worker's
// drain position.
func (t *Ownership) IsDrained(ctx context.Context) (bool, error) {
	// In this order: a message that arrives between the two reads counts as waiting.
	at, waiting := t.Input.brought.Load(), t.part.Waiting.Load()
	if !t.reading.Load() || !t.isRebuilt.Load() || t.failed.Load() || waiting > 0 {
		return false, nil
	}
	if at >= t.w.Drain.To {
		return true, nil
	}
	return IsAnswered(ctx, t.w.Server.In, t.part.State.ID, at, t.w.Drain.To)
}

// IsAnswered reports whether a partition has no input after message at, up to message
// to.
func IsAnswered(ctx context.Context, in *store.Input, part int, at, to uint64) (bool, error) {
	next, err := in.Next(ctx, part, at)
	return err == nil && (next == wire.Place{} || next.Seq > to), err
}
