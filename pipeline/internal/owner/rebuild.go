package owner

import (
	"context"
	"errors"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/shard"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/state"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// Rebuild brings a partition's state to the mark of its record, without a claim,
// and compares it with the digest there. It returns the snapshot that it began
// from, empty = from the first message, and the digest of the state.
func Rebuild(ctx context.Context, w *Worker, s *shard.Shard, part int, record wire.Record) (began string, digest wire.Digest, err error) {
	t := New(ctx, w, s, part, 0)
	defer t.Stop()
	t.C.Record = record
	err = t.rebuild()
	return t.began, t.Part.RebuiltSum, err
}

func (t *Ownership) rebuild() error {
	if err := t.checkInput(t.Ctx); err != nil {
		return err
	}
	if t.C.Record.Snap != "" {
		if err := t.Restore(); err != nil {
			return err
		}
	}
	t.Part.State.ReplayTo, t.Input.replayed = t.C.Record.Mark.Seq, t.C.Record.Mark.Seq
	// A damaged row that nobody asks for is a fault all the same.
	if err := storedRows(t.Ctx, t.W.Server.Snaps, t.Part.State, t.Shard.Machine.Shape.Words, func(*state.Stream, int, []uint32) {}); err != nil {
		return err
	}
	b := shard.NewBatch(1)
	if err := t.Shard.Install(b, t.Part); err != nil || t.Err() != nil || t.Part.State.Want.At == 0 {
		return errors.Join(err, t.Err())
	}
	rd, err := t.Receive(t.W.Server.JS, t.Part.State.Done+1, maxPull)
	if err != nil {
		return err
	}
	defer rd.end(CloseDeadline)
	defer t.Stop() // first: a callback may wait for room in the queue
	for t.Part.State.Want.At > 0 && t.Ctx.Err() == nil {
		if err := t.Shard.Next(t.Ctx, b); err != nil {
			return err
		}
	}
	if err := t.Err(); err != nil {
		return err
	}
	if t.Part.State.Want.At > 0 {
		return t.Ctx.Err()
	}
	return nil
}
