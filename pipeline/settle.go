package pipeline

import (
	"errors"
	"fmt"
	"time"
)

// current reports whether a partition has taken something that no replay
// repeats: its state is the one that belongs to the position done.
func (p *partition) current() bool { return p.done > 0 && p.done >= p.replayTo && p.skip == 0 }

// due reports whether a snapshot is: by count or by time, one at a time.
func (p *partition) due(s *shard, now time.Time) bool {
	return p.sinceSnapshot > 0 && !p.tenure.uploading.Load() &&
		(p.sinceSnapshot >= s.snapshotMessages || now.Sub(p.snapshotAt) >= s.snapshotEvery)
}

// settle finishes a batch after its engine call: digests of what it changed,
// the check at the end of a replay, snapshots, and what is to be given up.
func (s *shard) settle(b *batch) error {
	for _, i := range b.touched {
		a := &b.answers[i]
		p := a.part
		if err := s.rehash(p); err != nil {
			return err
		}
		a.digest = p.sum
		if p.tenure == nil { // a shard by itself
			continue
		}
		if p.verifyAt > 0 && p.done >= p.verifyAt {
			if err := p.verify(); err != nil {
				p.tenure.fail(err)
			}
		}
		p.stands()
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
	if p.failed() || !p.current() {
		return nil
	}
	now := time.Now()
	if a.close && p.done == p.tenure.saved.Load() && !p.unnamed || !a.close && !p.due(s, now) {
		return nil
	}
	var err error
	if a.snapshot, err = p.snapshot(s.shape, (*rowCopier)(s)); err != nil {
		return err
	}
	p.sinceSnapshot, p.snapshotAt = 0, now
	p.tenure.free(p.done, p.freed)
	p.freed, p.unnamed = nil, false
	if !a.close { // a release commits by itself
		a.commit = true
		p.tenure.uploading.Store(true)
	}
	return nil
}

// yield gives a partition up whose work the store of rows holds back, so that
// the others of the shard go on. Any other error is the stage's.
func (s *shard) yield(p *partition, err error) error {
	if err == nil || p.tenure == nil || !errors.Is(err, errLater) && s.last.Err() == nil {
		return err
	}
	s.storeFailed(p, err)
	return nil
}

// storeFailed ends a tenure for what the store of rows said, or did not say
// before a stop's time ran out.
func (s *shard) storeFailed(p *partition, err error) {
	if s.last.Err() != nil {
		err = fmt.Errorf("%w: state rows of partition %d", errUnfinished, p.id)
	}
	p.tenure.fail(fmt.Errorf("pipeline: partition %d: %w", p.id, err))
}
