package simulate

import "slices"

// begin sets what goes wrong.
func (f Fault) begin(r *run) {
	r.clock.at(f.At.Seconds(), func() {
		switch f.Kind {
		case KillWorker:
			r.killWorker(f.Server, f.For.Seconds())
		case KillServer:
			r.servers[f.Server].alive = false
			for _, s := range slices.Concat(r.in, r.out) {
				if delete(s.copies, f.Server); s.leader == f.Server {
					s.lost()
				}
			}
			r.killWorker(f.Server, -1)
		case Uplink: // see arrivals
		}
	})
}

// killWorker ends one; it starts again after so many seconds, or never.
func (r *run) killWorker(id int, again float64) {
	w := r.workers[id]
	w.alive = false
	for _, s := range w.shards {
		s.life++
		s.queue, s.emits = fifo[item]{}, fifo[[]item]{}
		s.batch, s.collects, s.computes, s.emitting, s.under = nil, false, false, false, 0
		s.compute = &thread{cores: s.compute.cores}
	}
	var orphans []*partition
	for _, p := range r.partitions {
		if p.shard.w == w {
			p.epoch++
			p.owned, p.open = false, false
			orphans = append(orphans, p)
		}
	}
	lease := r.cell.Job.Lease.Seconds()
	share := func() {
		var living []*worker
		for _, o := range r.workers {
			if o.alive {
				living = append(living, o)
			}
		}
		if len(living) == 0 {
			return // it is shared out when the worker is back
		}
		for i, p := range orphans {
			if !p.owned {
				to := living[i%len(living)]
				r.own(p, to.shards[i/len(living)%len(to.shards)], true)
			}
		}
	}
	r.clock.after(lease, share)
	if again < 0 {
		return
	}
	back := again + r.cell.Cluster.Ready.Seconds()
	if len(r.workers) == 1 { // nobody has them meanwhile: the lease of the one before must be over
		back = max(again, lease) + r.cell.Cluster.Ready.Seconds()
	}
	r.clock.after(back, func() {
		w.alive = true
		for i, p := range orphans { // it gets back what it had; who had it meanwhile releases it orderly
			p.epoch++
			r.own(p, w.shards[i%len(w.shards)], !p.owned)
		}
	})
}

// own restores a partition's states in a shard, replays what came after the snapshot,
// unless it was released orderly, and has the rest delivered.
func (r *run) own(p *partition, s *shard, replay bool) {
	p.shard, p.owned, p.open = s, true, false
	p.epoch++
	epoch := p.epoch
	p.next, p.received = 0, 0
	work := 0.
	if c := r.cell.Costs; c.Restore > 0 {
		work = r.cell.Job.State * float64(p.streams) / c.Restore * float64(len(s.w.shards))
	}
	n := 0
	if replay {
		n = p.since
	}
	var begin func()
	begin = func() {
		switch {
		case epoch != p.epoch:
			return
		case r.in[p.job].leader < 0: // nobody can read
			r.clock.after(Glance.Seconds(), begin)
			return
		}
		p.open = true
		for range n {
			r.give(p, item{p: p, epoch: epoch, replay: true})
		}
		r.deliver(p)
	}
	s.compute.do(work, begin)
}
