package simulate

// As in pipeline/internal/shard: batches of a shard at a time, how much longer one may wait for the
// commits of the one before, and how many messages for a commit it then waits for.
const (
	batchesPerShard = 3
	grows           = 4
	enough          = 20
)

// chunk is how much of a snapshot is made at once: other work passes between.
const chunk = 1 << 20

// message of a stream of a partition.
type message struct {
	due float64
}

// partition is a share of the streams.
type partition struct {
	id       int
	job      int
	streams  int
	shard    *shard
	epoch    int       // rises with each owner
	owned    bool      // by a living worker
	open     bool      // and its state is restored
	log      []message // stored, and not committed
	next     int       // of these, given to the consumer
	received int       // of these, with the shard
	since    int       // committed since the snapshot
	last     float64   // when it was taken
}

// worker is a stage on a server.
type worker struct {
	id     int
	alive  bool
	shards []*shard
	feeds  []feed // its consumer of each job
}

// feed is a worker's consumer: a goroutine of the leader of the input, in a term of it.
type feed struct {
	thread *thread
	term   int
}

// job is a message with a shard.
type item struct {
	p      *partition
	epoch  int
	replay bool
	due    float64
}

// shard is a goroutine of a worker that computes, and its emitter.
type shard struct {
	r        *run
	w        *worker
	life     int // rises when the worker dies
	compute  *thread
	queue    fifo[item]
	batch    []item
	collects bool
	computes bool
	growing  bool
	least    int
	timer    int // rises with each: those before are void
	under    int // batches whose commits have no answer
	emits    fifo[[]item]
	emitting bool
}

// take gets a message.
func (s *shard) take(i item) {
	s.queue.push(i)
	s.pump()
}

// pump is pipeline/internal/shard's Collect as far as it comes now.
func (s *shard) pump() {
	if s.computes {
		return
	}
	if !s.collects {
		if s.queue.len() == 0 || s.under >= batchesPerShard {
			return
		}
		s.collects, s.growing, s.least = true, false, 0
		s.wait(s.r.latency)
	}
	for s.queue.len() > 0 && len(s.batch) < s.r.cell.Job.Most {
		s.batch = append(s.batch, s.queue.pop())
		if s.growing && s.under == 0 && len(s.batch) >= s.least {
			break
		}
	}
	if len(s.batch) == s.r.cell.Job.Most || s.growing && s.under == 0 && len(s.batch) >= s.least {
		s.close()
	}
}

// wait has the latency budget end later.
func (s *shard) wait(d float64) {
	s.timer++
	timer, life := s.timer, s.life
	s.r.clock.after(d, func() {
		if timer != s.timer || life != s.life || !s.collects {
			return
		}
		if s.growing || s.under == 0 {
			s.close()
			return
		}
		s.growing = true
		s.wait((grows - 1) * s.r.latency)
		if want := enough * s.parts(s.batch, nil); want <= grows*len(s.batch) {
			s.least = want
		}
		s.pump()
	})
}

// parts counts the partitions of a batch, and calls f for each with its messages.
func (s *shard) parts(batch []item, f func(p *partition, items int)) int {
	count := s.r.scratch
	for _, i := range batch {
		count[i.p.id]++
	}
	n := 0
	for _, i := range batch {
		if c := count[i.p.id]; c > 0 {
			n++
			count[i.p.id] = 0
			if f != nil {
				f(i.p, c)
			}
		}
	}
	return n
}

// close ends the batch and computes it.
func (s *shard) close() {
	b := s.batch
	s.batch, s.collects, s.computes = nil, false, true
	s.timer++
	life := s.life
	c := s.r.cell.Costs
	s.compute.do(c.Call+float64(len(b))*c.Compute, func() {
		if life != s.life {
			return
		}
		s.computes = false
		s.r.seen.batches++
		live := b[:0]
		for _, i := range b {
			if !i.replay && i.epoch == i.p.epoch {
				live = append(live, i)
			}
		}
		if len(live) > 0 {
			s.under++
			s.emits.push(live)
			s.emit()
		}
		s.pump()
	})
}

// emit commits the next batch: a message for each of its partitions.
func (s *shard) emit() {
	if s.emitting || s.emits.len() == 0 {
		return
	}
	s.emitting = true
	b, life := s.emits.pop(), s.life
	left := s.parts(b, nil)
	answered := func() {
		if left--; left > 0 || life != s.life {
			return
		}
		s.r.committed(b)
		s.under--
		s.emitting = false
		s.emit()
		s.pump()
	}
	r := s.r
	s.parts(b, func(p *partition, n int) {
		r.seen.commits++
		r.servers[s.w.id].cores.do(r.cell.Costs.Commit, func() { // what it costs is spread over many goroutines
			bytes := r.cell.Job.Out * float64(n)
			r.out[p.job].publish(&request{from: s.w.id, sent: bytes, stored: bytes, done: func() {
				if r.out[p.job].leader == s.w.id {
					answered()
				} else {
					r.clock.after(r.hop, answered)
				}
			}})
		})
	})
}

// committed notes that the predictions of a batch are there, and takes snapshots.
func (r *run) committed(b []item) {
	for _, i := range b {
		if i.epoch != i.p.epoch {
			continue // of a partition that has been given away
		}
		r.answered(i.due)
		p := i.p
		p.log = p.log[1:]
		p.next--
		p.received--
		if p.since++; p.since >= r.cell.Job.SnapshotMessages || r.clock.now-p.last >= r.cell.Job.SnapshotEvery.Seconds() {
			r.snapshot(p)
		}
	}
}

// snapshot stores a partition's states that have changed: beside the work, on the same cores.
func (r *run) snapshot(p *partition) {
	bytes := r.cell.Job.State * float64(min(p.streams, p.since))
	p.since, p.last = 0, r.clock.now
	w, epoch := p.shard.w, p.epoch
	var piece func()
	piece = func() {
		if bytes <= 0 || epoch != p.epoch || !w.alive {
			return
		}
		n := min(bytes, chunk)
		bytes -= n
		r.servers[w.id].cores.do(n*r.cell.Costs.Snapshot, func() {
			for i := range r.cell.Job.Replicas { // the store's streams are led here and there
				to := (p.id + i) % len(r.servers)
				if d := r.servers[to]; d.alive {
					r.send(w.id, to, n, func() { d.disk.write(n*r.cell.Costs.Write, piece0) })
				}
			}
			piece()
		})
	}
	piece()
}

func piece0() {}
