package pipeline

import (
	"errors"
	"fmt"
	"time"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/state"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
)

// due reports whether a snapshot is: by count or by time, or because the last
// is lost, one at a time.
func (p *partition) due(s *shard, now time.Time) bool {
	age := now.Sub(p.snapshotAt)
	saving := p.owner.Saving()
	return !saving.Uploading && (saving.Lost && age >= s.pace.lease ||
		p.sinceSnapshot > 0 && (p.sinceSnapshot >= s.pace.snapshotMessages || age >= s.pace.snapshotEvery))
}

// finalise finishes a batch after its engine call: digests of what it changed,
// the check at the end of a replay, snapshots, and what is to be given up.
func (s *shard) finalise(b *batch) error {
	for _, i := range b.touched {
		a := &b.answers[i]
		p := a.part
		if err := s.machine.Rehash(p.state, s); err != nil {
			return err
		}
		if err := s.check(p); err != nil {
			return err
		}
		a.digest = p.state.Sum
		if len(p.state.Losses) > 0 {
			a.losses = p.state.Losses.String()
		}
		if p.owner == nil { // a shard by itself
			continue
		}
		p.markRebuilt()
		if err := s.save(a); err != nil {
			return err
		}
		if a.close {
			s.drop(p)
		}
	}
	return nil
}

// save takes a snapshot of a partition if it is time. The commit that goes
// with it makes sure that no commit that names it later is behind it.
func (s *shard) save(a *answer) error {
	p := a.part
	if p.failed() || !p.state.Current() {
		return nil
	}
	now, saving := time.Now(), p.owner.Saving()
	if a.close && p.state.Done == saving.Seq && !p.state.Unnamed && !saving.Lost || !a.close && !p.due(s, now) {
		return nil
	}
	var err error
	if a.snapshot, err = p.state.Encode(s.machine.Shape, state.RowsIn{Rows: s}); err != nil {
		return err
	}
	p.sinceSnapshot, p.snapshotAt = 0, now
	p.state.Losses = p.state.Losses.Saved(saving.Seq, p.state.Done)
	p.owner.Took(p.state.Done, p.state.Freed, !a.close)
	p.state.Freed, p.state.Unnamed = nil, false
	if !a.close { // a release commits by itself
		a.commit = true
	}
	return nil
}

// failPartition ends a partition's ownership for a fault that is the partition's alone, so
// that the others of the shard go on: it is full of open sequences, or needs
// what the store of rows does not give. Any other error is the stage's.
func (s *shard) failPartition(p *partition, err error) error {
	switch {
	case err == nil || p.owner == nil:
		return err
	case errors.Is(err, store.ErrLater) || errors.Is(err, state.ErrStreams) || s.last.Err() != nil:
		s.giveUpOn(p, err)
		return nil
	}
	return err
}

// giveUpOn ends an ownership. What fails once a stop's time has run out says
// nothing of the partition.
func (s *shard) giveUpOn(p *partition, err error) {
	if s.last.Err() != nil {
		err = store.ErrUnfinished
	}
	p.owner.Fail(fmt.Errorf("partition %d: %w", p.state.ID, err))
}
