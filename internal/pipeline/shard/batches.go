package shard

import "context"

// batches are a shard's batches returned by the emitter: all but the current batch and
// the batches in publication.
type batches struct {
	free  <-chan *Batch // from the emitter; nil: a shard without an emitter
	spare []*Batch      // batches already received from free
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
