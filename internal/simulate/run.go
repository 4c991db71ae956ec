package simulate

import (
	"math"
	"math/rand/v2"
	"slices"
)

// run is a simulation under way.
type run struct {
	clock      clock
	cell       *Cell
	hop        float64
	latency    float64
	servers    []*server
	workers    []*worker
	partitions []*partition
	in, out    []*nstream // of each job
	scratch    []int      // messages of each partition in a batch: all 0 between two calls of parts
	rng        *rand.Rand
	seen       tally
}

// tally is what has been counted.
type tally struct {
	arrived, left    int // messages, and those without a prediction
	batches, commits int
	area             float64 // of left over time
	areaAt           float64
	took             []float32 // seconds, of each message after the warm-up
	total            float64   // seconds, of all messages
	backlog          []int
	most             int // without a prediction, since the last value of backlog
}

// Run simulates the cell.
func Run(cell Cell) (*Result, error) {
	if err := cell.check(); err != nil {
		return nil, err
	}
	r := &run{cell: &cell, hop: cell.Cluster.Hop.Seconds(), latency: cell.Job.Latency.Seconds(), rng: rand.New(rand.NewPCG(cell.Seed, 1))}
	r.build()
	for _, f := range cell.Faults {
		f.begin(r)
	}
	r.arrivals()
	for t := 0.; t < cell.Time.Seconds(); t += Glance.Seconds() {
		r.clock.at(t, func() { r.seen.backlog, r.seen.most = append(r.seen.backlog, r.seen.most), r.seen.left })
	}
	r.clock.run(cell.Warm.Seconds())
	before := r.used()
	batches, commits, arrived := r.seen.batches, r.seen.commits, r.seen.arrived
	r.clock.run(cell.Time.Seconds())
	after := r.used()
	res := &Result{Messages: r.seen.arrived, Rate: cell.Job.rate(), Backlog: r.seen.backlog, Left: r.seen.left}
	took := (cell.Time - cell.Warm).Seconds()
	for i := range after {
		after[i].Share = (after[i].Share - before[i].Share) / took
	}
	for i := range cell.Cluster.Servers {
		res.Cores += (after[i].Share + cell.Costs.Idle/float64(cell.Machine.Cores)) * float64(cell.Machine.Cores)
		after[i].Share += cell.Costs.Idle / float64(cell.Machine.Cores)
	}
	res.Use = busiest(after)
	if n := float64(r.seen.batches - batches); n > 0 {
		res.Batch, res.Commits = float64(r.seen.arrived-arrived)/n, float64(r.seen.commits-commits)/float64(max(1, r.seen.arrived-arrived))
	}
	res.quantiles(r.seen.took)
	res.Mean = r.seen.total / float64(max(1, r.seen.arrived-r.seen.left))
	r.count()
	res.Waiting = r.seen.area / r.clock.now
	for _, f := range cell.Faults {
		res.Faults = append(res.Faults, r.recovery(f))
	}
	return res, nil
}

func (r *run) build() {
	c := r.cell
	for i := range c.Cluster.Servers {
		s := &server{alive: true}
		s.cores = &station{c: &r.clock, servers: c.Machine.Cores}
		s.in, s.out = &station{c: &r.clock, servers: 1}, &station{c: &r.clock, servers: 1}
		s.disk = &disk{c: &r.clock, rate: c.Machine.Disk, cache: c.Machine.Cache}
		r.servers = append(r.servers, s)
		w := &worker{id: i, alive: true, feeds: make([]feed, c.jobs())}
		for range c.Machine.Cores {
			w.shards = append(w.shards, &shard{r: r, w: w, compute: &thread{cores: s.cores}})
		}
		r.workers = append(r.workers, w)
	}
	for j := range c.jobs() {
		r.in, r.out = append(r.in, r.newStream(j%len(r.servers))), append(r.out, r.newStream((j+1)%len(r.servers)))
	}
	all := c.jobs() * c.Job.Partitions
	r.scratch = make([]int, all)
	for i := range all {
		w := r.workers[i%len(r.workers)]
		p := &partition{id: i, job: i / c.Job.Partitions, shard: w.shards[i/len(r.workers)%len(w.shards)], owned: true, open: true}
		// Partitions began at different times: their snapshots are due at different times.
		p.last = -r.rng.Float64() * c.Job.SnapshotEvery.Seconds()
		r.partitions = append(r.partitions, p)
	}
	for s := range c.Job.Streams {
		r.partitions[r.partitionOf(s)].streams++
	}
}

// partitionOf is a hash of the stream (splitmix64).
func (r *run) partitionOf(stream int) int {
	z := uint64(stream)*0x9e3779b97f4a7c15 + r.cell.Seed
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return int((z ^ z>>31) % uint64(r.cell.jobs()*r.cell.Job.Partitions))
}

// arrivals sets the first message: each sets the one after it.
func (r *run) arrivals() {
	j := r.cell.Job
	gap, together := j.Every.Seconds()/float64(j.Streams), 1
	switch j.Arrival {
	case Synchronised:
		together = j.Streams
	case Bursts:
		together = min(burst, j.Streams)
	}
	i, end := 0, r.cell.Time.Seconds()
	due := 0.
	var next func()
	next = func() {
		t := r.held(due)
		if t < end {
			r.clock.at(t, func() {
				for k := range together {
					stream := (i + k) % j.Streams
					if j.Arrival == Random {
						stream = r.rng.IntN(j.Streams)
					}
					r.arrive(r.partitions[r.partitionOf(stream)])
				}
				i += together
				if j.Arrival == Random {
					due += gap * r.rng.ExpFloat64()
				} else {
					due = float64(i) * gap
				}
				next()
			})
		}
	}
	next()
}

// held is when a message arrives that is sent at t.
func (r *run) held(t float64) float64 {
	for _, f := range r.cell.Faults {
		if end := (f.At + f.For).Seconds(); f.Kind == Uplink && t >= f.At.Seconds() && t < end {
			return end
		}
	}
	return t
}

// arrive publishes a message of a partition.
func (r *run) arrive(p *partition) {
	r.count()
	r.seen.arrived++
	r.seen.left++
	r.seen.most = max(r.seen.most, r.seen.left)
	due, c := r.clock.now, r.cell
	r.in[p.job].publish(&request{from: -1, sent: c.Job.Payload, stored: c.Job.In, done: func() {
		p.log = append(p.log, message{due})
		if p.open && p.shard.w.alive {
			r.deliver(p)
		}
	}})
}

// deliver gives a partition's owner what it has not got.
func (r *run) deliver(p *partition) {
	for p.next < len(p.log) && r.in[p.job].leader >= 0 {
		i := item{p: p, epoch: p.epoch, due: p.log[p.next].due}
		p.next++
		r.give(p, i)
	}
}

// give brings a message to its shard.
func (r *run) give(p *partition, i item) {
	w, in := p.shard.w, r.in[p.job]
	from, f := in.leader, &w.feeds[p.job]
	if f.thread == nil || f.term != in.term {
		f.thread, f.term = &thread{cores: r.servers[from].cores}, in.term
	}
	f.thread.do(r.cell.Costs.Store.Of(r.cell.Job.Payload), in.inTerm(func() {
		r.send(from, w.id, r.cell.Job.Payload, in.inTerm(func() {
			if i.epoch != p.epoch {
				return
			}
			if !i.replay {
				p.received++
			}
			p.shard.take(i)
		}))
	}))
}

// redeliver has a new leader of an input give what was on its way.
func (r *run) redeliver(in *nstream) {
	for _, p := range r.partitions {
		if p.open && r.in[p.job] == in && in.leader >= 0 {
			p.next = p.received
			r.deliver(p)
		}
	}
}

// count adds up how many messages wait for how long.
func (r *run) count() {
	r.seen.area += float64(r.seen.left) * (r.clock.now - r.seen.areaAt)
	r.seen.areaAt = r.clock.now
}

// answered notes a prediction.
func (r *run) answered(due float64) {
	r.count()
	r.seen.left--
	r.seen.total += r.clock.now - due
	if due >= r.cell.Warm.Seconds() {
		r.seen.took = append(r.seen.took, float32(r.clock.now-due))
	}
}

// used is how long each resource has worked, as a share of a second; cores come first.
func (r *run) used() (all []Use) {
	for i, s := range r.servers {
		all = append(all, Use{"cores", i, s.cores.worked / float64(s.cores.servers)})
	}
	for i, s := range r.servers {
		all = append(all, Use{"network in", i, s.in.worked}, Use{"network out", i, s.out.worked}, Use{"disk", i, s.disk.written / s.disk.rate})
	}
	for j := range r.in {
		all = append(all, Use{"input's goroutine", max(0, r.in[j].leader), r.in[j].thread.worked}, Use{"output's goroutine", max(0, r.out[j].leader), r.out[j].thread.worked})
	}
	for _, w := range r.workers {
		most := 0.
		for _, s := range w.shards {
			most = max(most, s.compute.worked)
		}
		all = append(all, Use{"shard", w.id, most})
		most = 0
		for _, f := range w.feeds {
			if f.thread != nil {
				most = max(most, f.thread.worked)
			}
		}
		all = append(all, Use{"consumer", w.id, most})
	}
	return all
}

// busiest is the most used of each kind, most first.
func busiest(all []Use) (most []Use) {
	for _, u := range all {
		k := slices.IndexFunc(most, func(m Use) bool { return m.What == u.What })
		if k < 0 {
			most = append(most, u)
		} else if u.Share > most[k].Share {
			most[k] = u
		}
	}
	slices.SortStableFunc(most, func(a, b Use) int {
		if a.Share > b.Share {
			return -1
		}
		if a.Share < b.Share {
			return 1
		}
		return 0
	})
	return most
}

// recovery says what a fault did to the backlog.
func (r *run) recovery(f Fault) Recovery {
	at, glance := f.At.Seconds(), Glance.Seconds()
	end := at
	if f.Kind == Uplink {
		end += f.For.Seconds()
	}
	rec := Recovery{Fault: f, CaughtUp: -1}
	usual := 0
	for i, n := range r.seen.backlog {
		switch t := float64(i) * glance; {
		case t < at:
			if t >= r.cell.Warm.Seconds() {
				usual = max(usual, n)
			}
		default:
			if n > rec.Peak {
				rec.Peak, rec.CaughtUp = n, -1
			}
			if rec.CaughtUp < 0 && t >= end+.5 && n <= usual {
				rec.CaughtUp = math.Round((t-at)*100) / 100
			}
		}
	}
	rec.Usual = usual
	return rec
}
