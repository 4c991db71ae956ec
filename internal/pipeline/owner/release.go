package owner

import (
	"context"
	"errors"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// finishAnswer uploads the snapshot of a committed answer, and releases the partition
// after its last answer. Both run in parallel to the next batches.
func (e *Emitter) finishAnswer(ctx context.Context, a *shard.Answer) {
	t, b, seq := ownerOf(a.Part), a.Snapshot, a.InSeq
	switch {
	case a.Close:
		at := wire.Mark{Seq: a.InSeq, Time: a.InTime, Digest: a.Digest}
		promoted := a.Promoted // the answer is not ours for as long
		e.releases.Go(func() {
			defer close(t.closed)
			if !t.failed.Load() {
				e.releaseAnswer(ctx, t, at, promoted, b)
			}
		})
	case b != nil && t.failed.Load():
		t.uploadEnds(b)
	case b != nil:
		epoch := t.c.Record.Epoch
		e.releases.Go(func() {
			defer t.uploadEnds(b)
			if err := t.uploadSnapshot(ctx, epoch, seq, b); err != nil && ctx.Err() == nil {
				t.storing.uploadFailed(time.Now())
				t.w.Log.Warn("snapshot not stored; the stage retries with the next snapshot", "partition", t.part.State.ID, "err", err)
			}
		})
	}
}

// uploadEnds records the arrival or failure of a snapshot.
func (t *Ownership) uploadEnds(b []byte) {
	t.shard.Uploads.Add(-int64(len(b)))
	t.storing.uploadEnds()
}

// releaseAnswer stores a partition's last state and marks the last record, so that the
// next owner need not wait for the lease. A snapshot in upload is waited for: it may be
// the last.
func (e *Emitter) releaseAnswer(ctx context.Context, t *Ownership, at wire.Mark, promoted wire.Promoted, b []byte) {
	for t.storing.isUploading() && ctx.Err() == nil {
		_ = store.Pause(ctx, time.Millisecond)
	}
	next := t.c.Record
	next.Kind = wire.KindReleased
	if b != nil {
		err := t.uploadSnapshot(ctx, t.c.Record.Epoch, at.Seq, b)
		switch {
		case err != nil && ctx.Err() == nil:
			t.w.Log.Warn("last snapshot not stored: the next owner starts from the previous snapshot and replays more input", "partition", t.part.State.ID, "err", err)
		case err == nil:
			next.InSeq, next.Ahead, next.Mark = at.Seq, 0, at
			next.Rests = wire.Place{}
			if promoted.Number > 0 {
				next.Promoted = promotedAfter(next.Promoted, promoted)
			}
			if next.EmptyTo = t.Input.emptyAfter(at.Seq); at.Seq == t.c.Record.InSeq {
				next.EmptyTo = max(next.EmptyTo, t.c.Record.EmptyTo)
			}
		}
	}
	if now := t.storing.unnamedSnapshot(); now != nil && now.seq <= next.Mark.Seq {
		next.Snap, next.SnapSeq = now.name, now.seq
	}
	t.c.Reassure(ctx)
	t.c.BeginPublish(t.w.Empty, next, nil)
	if err := e.awaitCommit(ctx, t); err != nil && !errors.Is(err, store.ErrFenced) {
		t.Fail(err)
	}
}

// uploadSnapshot stores a snapshot taken after seq; the next commit names it.
func (t *Ownership) uploadSnapshot(ctx context.Context, epoch, seq uint64, b []byte) error {
	name, home := wire.SnapshotName(t.part.State.ID, epoch, seq), t.w.Server.Snaps.Generation.Load()
	begin := time.Now()
	if err := t.w.Server.Snaps.Put(ctx, name, b); err != nil {
		return err
	}
	took := time.Since(begin)
	t.w.Counters.Snapshots.Add(1)
	t.w.Counters.SnapshotBytes.Add(uint64(len(b)))
	t.w.Counters.Spent.Snapshot.Add(int64(took))
	t.w.Log.Debug("snapshot stored", "name", name, "bytes", len(b), "took", took)
	t.storing.noteArrived(&stored{name, seq, begin, home})
	return nil
}
