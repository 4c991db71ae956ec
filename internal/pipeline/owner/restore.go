package owner

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// restoreState reads the snapshot named by the record, or rebuilds without a snapshot.
func (t *Ownership) restoreState() error {
	err := t.restoreFrom(t.c.Record.Snap, t.c.Record.SnapSeq)
	if store.LostSnapshot(err) || errors.Is(err, state.ErrDamaged) {
		return t.restoreOlder(err)
	}
	return err
}

// restoreFrom reads a snapshot of the state after input message seq.
func (t *Ownership) restoreFrom(name string, seq uint64) error {
	var rest store.Download
	var wait store.Backoff
	for {
		b, err := t.w.Server.Snaps.GetRest(t.ctx, name, &rest)
		switch {
		case err == nil:
			p, err := state.Decode(b, t.shard.Machine.Shape, t.part.State.ID)
			if err == nil && p.Done != seq {
				err = fmt.Errorf("pipeline: it was taken after input message %d, but the record has %d", p.Done, seq)
			}
			if other := (*wire.VersionError)(nil); errors.As(err, &other) {
				return fmt.Errorf("pipeline: snapshot %s in %s cannot be used: %w", name, t.w.Server.Snaps.Bucket, other)
			}
			if errors.Is(err, state.ErrDamaged) {
				return fmt.Errorf("pipeline: snapshot %s in %s, which partition %d begins from, is lost: %w", name, t.w.Server.Snaps.Bucket, t.part.State.ID, err)
			}
			if err != nil {
				return fmt.Errorf("pipeline: snapshot %s in %s cannot be used: %w; restore the store, or start a new job", name, t.w.Server.Snaps.Bucket, err)
			}
			if name != t.c.Record.Snap { // the input of the digest is known to be unchanged; earlier input may have changed
				if err := t.w.Server.In.CheckUnchanged(t.ctx, p.ID, wire.Place{Seq: p.Done, Stored: p.DoneTime}); err != nil {
					return fmt.Errorf("pipeline: snapshot %s in %s: %w", name, t.w.Server.Snaps.Bucket, err)
				}
			}
			t.storing.noteRestored(p.Done)
			t.namedRows, t.began = p.StoredRows(), name
			t.part.State.TakeOver(p)
			t.w.Counters.Restores.Add(1)
			return nil
		case errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrStreamNotFound):
			return fmt.Errorf("pipeline: snapshot %s, which partition %d begins from: %s is gone: restore it: %w", name, t.part.State.ID, t.w.Server.Snaps.Bucket, store.ErrLater)
		case store.LostSnapshot(err):
			return fmt.Errorf("pipeline: snapshot %s in %s, which partition %d begins from, is lost: %w", name, t.w.Server.Snaps.Bucket, t.part.State.ID, err)
		}
		t.w.Log.Warn("snapshot cannot be read, retrying", "snapshot", name, "err", err)
		if err := store.Pause(t.ctx, wait.Next()); err != nil {
			return err
		}
	}
}

// restoreOlder rebuilds without a lost snapshot: from an earlier snapshot, or from the
// input's first message. The result must have the record's digest; see verify.
func (t *Ownership) restoreOlder(lost error) error {
	if err := t.c.CheckOvertaken(t.ctx, lost); errors.Is(err, store.ErrFenced) {
		return err // the current owner of the partition has deleted it
	}
	if t.c.Record.Mark.Seq == 0 {
		return fmt.Errorf("%w; restore the store, or start a new job", lost)
	}
	all, err := t.w.Server.Snaps.Entries(t.ctx, t.part.State.ID)
	if err != nil {
		return fmt.Errorf("%w: %w: %w", lost, err, store.ErrLater)
	}
	for _, e := range all {
		if e.Name == t.c.Record.Snap || e.Seq > t.c.Record.SnapSeq || t.first > e.Seq+1 {
			continue
		}
		err := t.restoreFrom(e.Name, e.Seq)
		if err == nil || t.ctx.Err() != nil {
			t.withoutSnapshot(lost, "an earlier snapshot, "+e.Name, e.Seq+1)
			return err
		}
		t.w.Log.Warn("an earlier snapshot cannot replace the lost one", "partition", t.part.State.ID, "err", err)
	}
	if t.first > 1 {
		return fmt.Errorf("%w; there is no earlier snapshot, and %s begins at message %d: restore one of the two, or start a new job", lost, t.w.Server.In.Name(), t.first)
	}
	t.withoutSnapshot(lost, "nothing", 1)
	return nil
}

func (t *Ownership) withoutSnapshot(lost error, from string, first uint64) {
	t.storing.noteLost()
	t.part.Instead = fmt.Sprintf("; the snapshot it names is lost, and the state was rebuilt from %s and the input from message %d on", from, first)
	t.w.Log.Warn("a snapshot is lost: the state is rebuilt from the remaining data, and compared with the record's digest before the partition predicts", "partition", t.part.State.ID, "from", from, "input", first, "to", t.c.Record.InSeq, "err", lost)
}
