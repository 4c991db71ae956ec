package owner

import "time"

// gatherTime is how long the first partition of a worker waits for the partitions
// claimed in the same turn, so that they begin together.
const gatherTime = 250 * time.Millisecond

// gathering is the set of a worker's first partitions until the partitions begin to
// read together.
type gathering struct {
	want  int
	came  []arrived
	begun chan struct{}
}

// arrived is a partition with all messages up to seq in the shard.
type arrived struct {
	t   *Ownership
	seq uint64
}

// ExpectPartitions announces n beginning partitions, at the worker's start.
func (c *Common) ExpectPartitions(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.whole.Load() && c.gather == nil && n > 1 {
		c.gather = &gathering{want: n, begun: make(chan struct{})}
	}
}

// joinGathering is takeMember for a beginning partition: the first partitions wait for
// each other.
func (c *Common) joinGathering(t *Ownership, seq uint64) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	g := c.gather
	if g == nil || t.w.Drain != nil {
		c.mu.Unlock()
		return c.takeMember(t, seq, false)
	}
	g.came = append(g.came, arrived{t, seq})
	switch len(g.came) {
	case g.want:
		c.beginReading(g)
	case 1:
		c.beside.Go(func() { c.beginLate(g) })
	}
	c.mu.Unlock()
	select {
	case <-g.begun:
	case <-t.ctx.Done():
	}
	return t.Input.common.Load()
}

// beginLate begins without slow partitions.
func (c *Common) beginLate(g *gathering) {
	select {
	case <-g.begun:
	case <-time.After(gatherTime):
		c.mu.Lock()
		defer c.mu.Unlock()
		c.beginReading(g)
	}
}

// beginReading begins to read for the gathered partitions, except partitions far
// behind, which would delay the others. The lock is held.
func (c *Common) beginReading(g *gathering) {
	if c.gather != g {
		return
	}
	c.gather = nil
	defer close(g.begun)
	if !c.whole.Load() || c.now != nil {
		return
	}
	var last uint64
	for _, a := range g.came {
		last = max(last, a.seq)
	}
	first := last
	for _, a := range g.came {
		if last-a.seq <= nearby {
			first = min(first, a.seq)
		}
	}
	c.startReading(first)
	for _, a := range g.came {
		if a.seq >= first && a.t.ctx.Err() == nil {
			c.joinMember(a.t)
		}
	}
	if c.now.joined == 0 {
		c.endReading()
	}
}
