package pipeline

import (
	"errors"
	"fmt"
	"slices"
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

// adopt takes over a partition as its snapshot left it: its rows go into
// slots, the longest silent first, so that they are the first to leave where
// there are too many. The state is checked against the record that named it.
func (s *shard) adopt(b *batch, p *partition) error {
	p.open = true
	s.counters.streams.Add(int64(p.recency.Len())) // these, before anything can fail: drop takes all of them back
	s.counters.away.Add(int64(p.away))
	for _, src := range p.sources {
		src.part = p
		s.counters.parked.Add(int64(len(src.held)))
	}
	for e := p.recency.Back(); e != nil; e = e.Prev() {
		st := e.Value.(*stream)
		for i, row := range st.rows {
			if row == nil {
				continue
			}
			slot, err := s.slot(b)
			if err != nil {
				return s.yield(p, err)
			}
			st.slots[i] = slot
			s.residents.use(st)
			if err := s.pool.engine.WriteRow(int(slot), row); err != nil {
				p.tenure.fail(fmt.Errorf("pipeline: partition %d: snapshot: state of stream %q: %w", p.id, st.id, err))
			}
			st.rows[i] = nil
		}
		st.rows = nil
	}
	s.countSlots()
	p.snapshotAt = time.Now()
	if err := s.rehash(p); err != nil {
		return err
	}
	if p.verifyAt > 0 && p.done >= p.verifyAt {
		if err := p.verify(); err != nil {
			p.tenure.fail(err)
		}
	}
	p.stands()
	return nil
}

// stands notes that a partition's state is rebuilt, once it is.
func (p *partition) stands() {
	if !p.rebuilt && p.tenure != nil && p.done >= p.replayTo && !p.failed() {
		p.rebuilt = true
		p.tenure.rebuilt.Store(true)
	}
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

// drop frees what a partition holds. Its last answer may still be under way.
func (s *shard) drop(p *partition) {
	for e := p.recency.Front(); e != nil; e = e.Next() {
		st := e.Value.(*stream)
		for _, slot := range st.slots {
			if slot >= 0 {
				s.pool.release(slot)
			}
		}
		s.residents.remove(st)
	}
	for _, src := range p.sources {
		s.counters.parked.Add(-int64(len(src.held)))
	}
	s.counters.away.Add(-int64(p.away))
	s.closed = slices.DeleteFunc(s.closed, func(st *stream) bool { return p.sources[st.source.key] == st.source })
	s.counters.streams.Add(-int64(p.recency.Len()))
	if p.done < p.replayTo {
		s.counters.replaying.Add(-1)
	}
	p.sources, p.over = nil, true
	p.recency.Init()
	s.countSlots()
}
