package owner

import (
	"context"
	"errors"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Rebuild restores a partition's state at the mark of its record, without a claim, and
// compares it with the record's digest. Rebuild returns the starting snapshot, empty =
// the first message, and the digest of the state.
func Rebuild(ctx context.Context, w *Worker, s *shard.Shard, part int, record wire.Record) (began string, digest wire.Digest, err error) {
	t := New(ctx, w, s, part, 0)
	defer t.Stop()
	t.c.Record = record
	err = t.rebuildState()
	return t.began, t.part.RebuiltSum, err
}

func (t *Ownership) rebuildState() error {
	if err := t.checkInput(t.ctx); err != nil {
		return err
	}
	if t.c.Record.Snap != "" {
		if err := t.restoreState(); err != nil {
			return err
		}
	}
	t.part.State.ReplayTo, t.Input.replayed = t.c.Record.Mark.Seq, t.c.Record.Mark.Seq
	// A damaged row is a fault, even if no run needs the row.
	if err := storedRows(t.ctx, t.w.Server.Snaps, t.part.State, t.shard.Machine.Shape.Words, func(*state.Stream, int, []uint32) {}); err != nil {
		return err
	}
	b := shard.NewBatch(1)
	if err := t.shard.InstallPartition(b, t.part); err != nil || t.Err() != nil || t.part.State.Want.At == 0 {
		return errors.Join(err, t.Err())
	}
	rd, err := t.Receive(t.w.Server.JS, t.part.State.Done+1, maxPull)
	if err != nil {
		return err
	}
	defer rd.endReading(CloseDeadline)
	defer t.Stop() // first: a callback may wait for room in the queue
	for t.part.State.Want.At > 0 && t.ctx.Err() == nil {
		if err := t.shard.Next(t.ctx, b); err != nil {
			return err
		}
	}
	if err := t.Err(); err != nil {
		return err
	}
	if t.part.State.Want.At > 0 {
		return t.ctx.Err()
	}
	return nil
}
