package simulate

// clock runs events in the order of their times; those of one time in the order in which
// they were set.
type clock struct {
	now  float64
	heap []event
	set  uint64
}

type event struct {
	at float64
	n  uint64
	do func()
}

func (a event) before(b event) bool { return a.at < b.at || a.at == b.at && a.n < b.n }

// at has do called at a time, now at the earliest.
func (c *clock) at(t float64, do func()) {
	c.set++
	c.heap = append(c.heap, event{max(t, c.now), c.set, do})
	i := len(c.heap) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !c.heap[i].before(c.heap[up]) {
			break
		}
		c.heap[i], c.heap[up] = c.heap[up], c.heap[i]
		i = up
	}
}

// after has do called later.
func (c *clock) after(d float64, do func()) { c.at(c.now+d, do) }

// run calls all events up to a time.
func (c *clock) run(until float64) {
	for len(c.heap) > 0 && c.heap[0].at <= until {
		e := c.heap[0]
		last := len(c.heap) - 1
		c.heap[0] = c.heap[last]
		c.heap[last] = event{}
		c.heap = c.heap[:last]
		for i := 0; ; {
			least := i
			for down := 2*i + 1; down <= 2*i+2 && down < last; down++ {
				if c.heap[down].before(c.heap[least]) {
					least = down
				}
			}
			if least == i {
				break
			}
			c.heap[i], c.heap[least] = c.heap[least], c.heap[i]
			i = least
		}
		c.now = e.at
		e.do()
	}
	c.now = max(c.now, until)
}

// task is work of so many seconds.
type task struct {
	work float64
	done func()
}

// fifo is a queue that does not move what is in it.
type fifo[T any] struct {
	all  []T
	next int
}

func (q *fifo[T]) push(v T) { q.all = append(q.all, v) }
func (q *fifo[T]) len() int { return len(q.all) - q.next }
func (q *fifo[T]) pop() T {
	var none T
	v := q.all[q.next]
	q.all[q.next] = none
	q.next++
	if q.next == len(q.all) {
		q.all, q.next = q.all[:0], 0
	} else if q.next > 1024 && 2*q.next > len(q.all) {
		n := copy(q.all, q.all[q.next:])
		clear(q.all[n:])
		q.all, q.next = q.all[:n], 0
	}
	return v
}

// station is some servers with one queue, first come first served: the cores of a
// machine, or, with one server, a network in one direction.
type station struct {
	c       *clock
	servers int
	busy    int
	queue   fifo[task]
	worked  float64 // seconds, of all servers, of what has begun
}

func (s *station) do(work float64, done func()) {
	if s.busy == s.servers {
		s.queue.push(task{work, done})
		return
	}
	s.busy++
	s.begin(task{work, done})
}

func (s *station) begin(t task) {
	s.worked += t.work
	s.c.after(t.work, func() {
		if s.queue.len() > 0 {
			s.begin(s.queue.pop())
		} else {
			s.busy--
		}
		t.done()
	})
}

// thread is a goroutine: one task at a time, each on one of the cores.
type thread struct {
	cores  *station
	busy   bool
	queue  fifo[task]
	worked float64
}

func (t *thread) do(work float64, done func()) {
	if t.busy {
		t.queue.push(task{work, done})
		return
	}
	t.busy = true
	t.begin(task{work, done})
}

func (t *thread) begin(k task) {
	t.worked += k.work
	t.cores.do(k.work, func() {
		if t.queue.len() > 0 {
			t.begin(t.queue.pop())
		} else {
			t.busy = false
		}
		k.done()
	})
}

// disk takes what is written into memory, and writes it at its rate: a writer waits only
// where more than the cache is unwritten.
type disk struct {
	c           *clock
	rate, cache float64 // bytes a second, bytes
	unwritten   float64
	last        float64
	written     float64 // in all
}

// write is done when the cache has the bytes.
func (d *disk) write(bytes float64, done func()) {
	d.unwritten = max(0, d.unwritten-d.rate*(d.c.now-d.last)) + bytes
	d.last = d.c.now
	d.written += bytes
	if over := d.unwritten - d.cache; over > 0 {
		d.c.after(over/d.rate, done)
		return
	}
	done()
}
