package shard

import (
	"errors"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/dynamics"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/stats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// isSnapshotDue reports whether a snapshot is due, by count or by time, or because the
// previous snapshot is lost; one snapshot at a time. While many uploads are in
// progress, the interval doubles.
func (p *Partition) isSnapshotDue(s *Shard, saving Saving, now time.Time) bool {
	age := now.Sub(p.snapshotAt)
	messages, every := s.pace.snapshotMessages, s.pace.snapshotEvery
	if s.Uploads.Load() > manyUploads {
		messages, every = 2*messages, 2*every
	}
	return !saving.Uploading && (saving.Lost && age >= s.pace.lease ||
		p.sinceSnapshot > 0 && (p.sinceSnapshot >= messages || age >= every))
}

// finishBatch finishes a batch after its engine call: it updates digests, checks the
// digest at the end of a replay, takes snapshots and frees unused readouts.
func (s *Shard) finishBatch(b *Batch) error {
	for _, i := range b.Touched {
		a := &b.Answers[i]
		p := a.Part
		if err := s.Machine.UpdateDigest(p.State, s); err != nil {
			return err
		}
		if err := s.compareDigest(p); err != nil {
			return err
		}
		a.Digest = p.State.Sum
		if now := p.State.Promotion(); now.Number > 0 {
			a.Promoted = wire.Promoted{Number: now.Number, At: now.At, Readout: now.Readout}
		}
		if len(p.State.Losses) > 0 {
			a.Losses = p.State.Losses.String()
		}
		if p.Owner == nil { // a shard by itself
			continue
		}
		p.markRebuilt()
		if err := s.takeSnapshot(a); err != nil {
			return err
		}
		if a.Close {
			s.dropPartition(p)
		}
	}
	return nil
}

// takeSnapshot takes a snapshot of a partition if due. The commit of the same batch
// ensures that a later commit that names the snapshot is not older than the snapshot.
func (s *Shard) takeSnapshot(a *Answer) error {
	p := a.Part
	if p.Failed() || !p.State.Current() {
		return nil
	}
	now, saving := time.Now(), p.Owner.Saving()
	if a.Close && p.State.Done == saving.Seq && !p.State.Unnamed && !saving.Lost || !a.Close && !p.isSnapshotDue(s, saving, now) {
		return nil
	}
	var err error
	if a.Snapshot, err = p.State.Encode(s.Machine.Shape, state.RowsIn{Rows: s.rowReader()}); err != nil {
		return err
	}
	p.sinceSnapshot, p.snapshotAt = 0, now
	p.State.Losses = p.State.Losses.ForgetSaved(saving.Seq, p.State.Done)
	p.Owner.NoteSnapshot(p.State.Done, p.State.Freed, !a.Close)
	p.State.Freed, p.State.Unnamed = nil, false
	if !a.Close { // a release commits by itself
		a.Commit = true
		s.Uploads.Add(int64(len(a.Snapshot)))
	}
	return nil
}

// mostLooked is about how many states of a snapshot are looked at. A look takes about
// 0.1 ms (package dynamics, BenchmarkLook), and a shard may have a hundred thousand rows.
const mostLooked = 16

// looking is how a shard looks at states.
type looking struct {
	at     *dynamics.Look // nil: not at all
	states *stats.States
	rows   uint64 // rows in all snapshots so far
}

// lookedRows reads rows for a snapshot, and samples one of every several rows: over
// several snapshots, different rows each time.
type lookedRows struct {
	shard *Shard
	every uint64
}

func (s *Shard) rowReader() state.RowReader {
	if s.looking.at == nil {
		return s
	}
	return lookedRows{s, uint64(1 + s.pool.usedSlots()/mostLooked)}
}

// ReadRow is state.RowReader's.
func (r lookedRows) ReadRow(slot int32) ([]uint32, error) {
	row, err := r.shard.ReadRow(slot)
	l := &r.shard.looking
	if l.rows++; err == nil && l.rows%r.every == 0 {
		f := l.at.ComputeFigures(row)
		l.states.AddState(f.Saturated, f.Size)
	}
	return row, err
}

// failPartition ends a partition's ownership after a fault of the row store, so that
// the shard's other partitions continue. Any other error is returned and stops the
// stage.
func (s *Shard) failPartition(p *Partition, err error) error {
	switch {
	case err == nil || p.Owner == nil:
		return err
	case errors.Is(err, store.ErrLater) || s.last.Err() != nil:
		s.giveUpOn(p, err)
		return nil
	}
	return err
}
