package shard

import "context"

const (
	// grows is how many latency budgets a batch may wait while the commits of the
	// previous batch have no answer. Its own commits could not start earlier, and one
	// commit of more messages costs the server less.
	grows = 4
	// enough messages for each commit are worth waiting for then, where so many
	// come: a commit costs about 30 us of CPU time, as much as a message of 10 rows.
	enough = 20
)

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

// growth extends a batch while the commits of other batches have no answer.
type growth struct {
	answers <-chan *Batch // of the other batches; nil: the batch does not grow
	least   int           // number of messages to grow to
}

// growBatch begins the growth of a batch whose latency budget is spent. It reports
// false if the batch must not wait.
func (s *batches) growBatch(b *Batch, g *growth) bool {
	if g.answers != nil || !s.isBusy() {
		return false
	}
	g.answers = s.free
	if want := enough * len(b.Touched); want <= grows*b.messages {
		g.least = want
	}
	return true
}
