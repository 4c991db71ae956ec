package shard

import "context"

// batches are those of a shard that its emitter has answered: all but the one in
// hand and those under way.
type batches struct {
	free  <-chan *Batch // from the emitter; nil: a shard by itself, without one
	spare []*Batch      // taken out of it already
}

// waitForBatch is a batch to fill; nil: ctx has ended.
func (s *batches) waitForBatch(ctx context.Context) *Batch {
	if last := len(s.spare) - 1; last >= 0 {
		b := s.spare[last]
		s.spare = s.spare[:last]
		return b
	}
	select {
	case b := <-s.free:
		return b
	case <-ctx.Done():
		return nil
	}
}

// isBusy reports, while a batch is in hand, whether the commits of another have no
// answer.
func (s *batches) isBusy() bool {
	return s.free != nil && len(s.spare)+len(s.free) < BatchesPerShard-1
}
