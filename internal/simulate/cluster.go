package simulate

// server is a machine with a NATS server and a worker.
type server struct {
	alive   bool
	cores   *station
	in, out *station // network
	disk    *disk
}

// request is a message for a NATS stream, until the stream has it for good.
type request struct {
	from   int     // the server that sends it; -1: from outside
	sent   float64 // bytes on the network
	stored float64 // bytes in the stream
	done   func()
	over   bool
}

// nstream is a NATS stream: its leader takes one message after the other.
type nstream struct {
	r       *run
	leader  int // -1: none, until one is elected
	term    int // rises with each leader
	thread  *thread
	copies  map[int]*thread // of the followers
	pending fifo[*request]  // in order; some are over
}

func (r *run) newStream(leader int) *nstream {
	s := &nstream{r: r}
	s.lead(leader)
	return s
}

// lead begins a term. Followers are the next servers in the circle that live.
func (s *nstream) lead(leader int) {
	r := s.r
	s.leader, s.thread, s.copies = leader, &thread{cores: r.servers[leader].cores}, map[int]*thread{}
	s.term++
	for i, n := 1, len(r.servers); i < r.cell.Job.Replicas && i < n; i++ {
		if f := (leader + i) % n; r.servers[f].alive {
			s.copies[f] = &thread{cores: r.servers[f].cores}
		}
	}
}

// lost says that the leader is dead: the next living follower leads after an election,
// and who has no answer sends again.
func (s *nstream) lost() {
	old := s.leader
	s.leader, s.term = -1, s.term+1
	s.r.clock.after(s.r.cell.Cluster.Election.Seconds(), func() {
		for i := 1; i < len(s.r.servers); i++ {
			if n := (old + i) % len(s.r.servers); s.r.servers[n].alive {
				s.lead(n)
				break
			}
		}
		all := s.pending
		s.pending = fifo[*request]{}
		for all.len() > 0 {
			if q := all.pop(); !q.over {
				s.publish(q)
			}
		}
		s.r.redeliver(s)
	})
}

// publish stores a message: request.done is called when the stream has it for good.
func (s *nstream) publish(q *request) {
	for s.pending.len() > 0 && s.pending.all[s.pending.next].over {
		s.pending.pop()
	}
	s.pending.push(q)
	if s.leader < 0 {
		return
	}
	s.r.send(q.from, s.leader, q.sent, s.inTerm(func() { s.store(q) }))
}

// inTerm is f, unless the leader changes before.
func (s *nstream) inTerm(f func()) func() {
	term := s.term
	return func() {
		if s.term == term {
			f()
		}
	}
}

// store is what the leader does with a message that it has got.
func (s *nstream) store(q *request) {
	r, leader := s.r, s.leader
	work, copying := r.cell.Costs.Store.Of(q.sent), r.cell.Costs.Copy.Of(q.sent)
	bytes := q.stored * r.cell.Costs.Write
	if r.cell.Job.Replicas > 1 {
		work += copying
	}
	finish := s.inTerm(func() {
		if !q.over {
			q.over = true
			q.done()
		}
	})
	s.thread.do(work, s.inTerm(func() {
		r.servers[leader].disk.write(bytes, func() {
			if r.cell.Job.Replicas == 1 {
				finish()
			}
		})
		n := len(r.servers)
		for i := 1; i < r.cell.Job.Replicas; i++ {
			f := (leader + i) % n
			copies, follower := s.copies[f], r.servers[f]
			if copies == nil || !follower.alive {
				continue
			}
			r.send(leader, f, q.sent, func() {
				copies.do(copying, func() {
					follower.disk.write(bytes, func() {
						if follower.alive {
							r.clock.after(r.hop, finish) // the first of two makes a majority
						}
					})
				})
			})
		}
	}))
}

// send brings bytes from one server to another; from -1 is from outside.
func (r *run) send(from, to int, bytes float64, done func()) {
	arrive := func() { r.servers[to].in.do(bytes/r.cell.Machine.Network, done) }
	switch {
	case from == to:
		done()
	case from < 0:
		arrive()
	default:
		r.servers[from].out.do(bytes/r.cell.Machine.Network, func() { r.clock.after(r.hop, arrive) })
	}
}
