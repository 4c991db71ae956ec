package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// finish uploads the snapshot of an answer whose commit is out, and gives the
// partition up where this was its last. Both happen beside the next batches.
func (e *emitter) finish(ctx context.Context, a *answer) {
	t, b, seq := a.part.owner, a.snapshot, a.inSeq
	switch {
	case a.close:
		at := wire.Mark{Seq: a.inSeq, Time: a.inTime, Digest: a.digest, Version: wire.StateVersion}
		e.releases.Go(func() {
			defer close(t.closed)
			if !t.failed.Load() {
				e.release(ctx, t, at, b)
			}
		})
	case b != nil && t.failed.Load():
		t.uploading.Store(false)
	case b != nil:
		epoch := t.c.Epoch
		e.releases.Go(func() {
			defer t.uploading.Store(false)
			if err := t.upload(ctx, epoch, seq, b); err != nil && ctx.Err() == nil {
				t.log.Warn("snapshot not stored; the next one may be", "partition", t.part.state.ID, "err", err)
			}
		})
	}
}

// release stores a partition's last state and says in its last record that
// whoever claims it next need not wait. The snapshot under way, if there is
// one, is waited for: it may be the last.
func (e *emitter) release(ctx context.Context, t *ownership, at wire.Mark, b []byte) {
	for t.uploading.Load() && ctx.Err() == nil {
		_ = store.Pause(ctx, time.Millisecond)
	}
	next := t.c.Record
	next.Kind = wire.KindReleased
	if b != nil {
		err := t.upload(ctx, t.c.Epoch, at.Seq, b)
		switch {
		case err != nil && ctx.Err() == nil:
			t.log.Warn("last snapshot not stored: the next owner replays more", "partition", t.part.state.ID, "err", err)
		case err == nil:
			next.InSeq, next.Ahead, next.Mark = at.Seq, 0, at
			next.Rests = wire.Place{}
			if next.EmptyTo = t.part.emptyAfter(at.Seq); at.Seq == t.c.InSeq {
				next.EmptyTo = max(next.EmptyTo, t.c.EmptyTo)
			}
		}
	}
	if now := t.ready.Load(); now != nil && now.seq <= next.Mark.Seq {
		next.Snap, next.SnapSeq = now.name, now.seq
	}
	t.c.reassure(ctx)
	t.c.begin(t.empty, next)
	if err := e.await(ctx, t); err != nil && !errors.Is(err, errFenced) {
		t.fail(err)
	}
}

// upload stores a snapshot taken after seq; the next commit names it.
func (t *ownership) upload(ctx context.Context, epoch, seq uint64, b []byte) error {
	name, home := wire.SnapshotName(t.part.state.ID, epoch, seq), t.snaps.Generation.Load()
	begin := time.Now()
	if err := t.snaps.Put(ctx, name, b); err != nil {
		return err
	}
	took := time.Since(begin)
	t.counters.Snapshots.Add(1)
	t.counters.SnapshotBytes.Add(uint64(len(b)))
	t.counters.SnapshotNS.Add(int64(took))
	t.log.Debug("snapshot stored", "name", name, "bytes", len(b), "took", took)
	t.ready.Store(&stored{name, seq, begin, home})
	return nil
}
