package pipeline

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// restore reads the snapshot that the record names.
func (t *tenure) restore() error {
	c := t.c
	for {
		b, err := t.snaps.get(t.ctx, c.snap)
		switch {
		case err == nil:
			p, err := decodeSnapshot(b, t.shard.shape, t.part.id)
			if err == nil && p.done != c.snapSeq {
				err = fmt.Errorf("pipeline: it is of input message %d, the record says %d", p.done, c.snapSeq)
			}
			if other := (*versionError)(nil); errors.As(err, &other) {
				return fmt.Errorf("pipeline: snapshot %s in %s cannot be used: %w", c.snap, t.snaps.bucket, other)
			}
			if err != nil {
				return fmt.Errorf("pipeline: snapshot %s in %s cannot be used: %w; restore the store, or start a new job", c.snap, t.snaps.bucket, err)
			}
			t.saved.Store(p.done)
			t.kept = p.stored()
			t.part.restored(p, t.cfg.Job)
			t.counters.restores.Add(1)
			return nil
		case errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrStreamNotFound):
			return fmt.Errorf("pipeline: snapshot %s, which partition %d begins from: %s is gone: restore it: %w", c.snap, t.part.id, t.snaps.bucket, errLater)
		case lostSnapshot(err):
			return fmt.Errorf("pipeline: snapshot %s in %s, which partition %d begins from, is lost: %w; restore the store, or start a new job", c.snap, t.snaps.bucket, t.part.id, err)
		}
		t.log.Warn("snapshot cannot be read, trying again", "name", c.snap, "err", err)
		if err := pause(t.ctx, retryWait); err != nil {
			return err
		}
	}
}

// restored takes over what a snapshot holds.
func (p *partition) restored(from *partition, jobName string) {
	p.sources, p.clock, p.lossy = from.sources, from.clock, p.lossy || from.lossy
	p.done, p.doneTime, p.heldBytes = from.done, from.doneTime, from.heldBytes
	p.away, p.recast = from.away, from.recast
	p.dirty, p.dirtySources = from.dirty, from.dirtySources
	p.recency.Init()
	for e := from.recency.Front(); e != nil; e = e.Next() {
		st := e.Value.(*stream)
		st.element = p.recency.PushBack(st)
	}
	for _, src := range p.sources {
		for i := range src.held {
			src.held[i].job.part = p
			src.held[i].job.subject = fmt.Sprintf("%s.in.%d.%s", jobName, p.id, src.key)
		}
	}
}
