//go:build linux

package main

import (
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	workerStop    = 20 * time.Second       // a clean stop has 10 s for its last commit
	zombieGrace   = 2 * time.Second        // how long one that woke up may try to commit
	restartWait   = 200 * time.Millisecond // before a worker that ended by itself is started again
	restartLonger = time.Second            // if it had lived shorter than this
	settled       = 2 * time.Second        // by then a worker has work, which zombies and partitions need
)

// fleet keeps a number of workers running. Each has a seat; if its worker ends,
// another starts in the seat, as a supervisor would do it.
type fleet struct {
	procs   *children
	cluster *cluster
	args    []string      // without the server's address
	lag     time.Duration // of every new link
	env     []string

	mu      sync.Mutex
	seats   []*worker
	all     []*worker // ever started
	links   []*link   // theirs
	closing bool
	absent  bool           // every worker is away while a command changes the job
	pending sync.WaitGroup // faults that have not ended yet

	faults  faultCounts
	exits   map[string]int // workers that ended by themselves, by how
	sleeps  []sleep
	unclean []string // ends after SIGTERM that were not clean
	err     error
}

// worker is one process of the stage, with its own link to the servers.
type worker struct {
	*proc
	link  *link
	seat  int
	away  bool // stopped or cut off
	since time.Time
}

// sleep is the time a zombie was stopped or cut off.
type sleep struct{ from, to time.Time }

// faultCounts are faults that happened, each checked where it was made.
type faultCounts struct {
	WorkerKills    int   `json:"worker_kills"`    // SIGKILL, seen in the exit status
	Zombies        int   `json:"zombies"`         // stopped, seen in /proc, replaced and woken up
	Overtaken      int   `json:"overtaken"`       // zombies and partitions during which another worker committed
	ServerKills    int   `json:"server_kills"`    // SIGKILL, seen in the exit status
	LeaderKills    int   `json:"leader_kills"`    // of those, leaders of the input or the output
	Partitions     int   `json:"partitions"`      // all connections of a worker held, and there were some
	LatePartitions int   `json:"late_partitions"` // of those, with traffic in flight that reached the other side late
	LateBytes      int64 `json:"late_bytes"`      // so delivered
	Cuts           int   `json:"cuts"`            // connections reset and refused for a while
	CutConns       int64 `json:"cut_conns"`       // connections so reset
	OneWay         int   `json:"one_way"`         // one direction of all connections of a worker held, then delivered or reset
	Slow           int   `json:"slow"`            // times of added latency
	CleanRestarts  int   `json:"clean_restarts"`  // SIGTERM, then a new worker
	ScaleSteps     int   `json:"scale_steps"`

	Harms map[string]int `json:"harms,omitempty"` // done to what the servers store, by kind, each checked where it was done
}

func (f *fleet) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

// spawn fills a seat. f.mu is held.
func (f *fleet) spawn(seat int) {
	l, err := newLink(f.cluster)
	if err != nil {
		f.fail(err)
		return
	}
	l.slow(f.lag)
	f.links = append(f.links, l)
	p, err := f.procs.start(fmt.Sprintf("w%02d", len(f.links)), f.env, append(slices.Clone(f.args), "--nats-url", l.url())...)
	if err != nil {
		f.fail(err)
		return
	}
	w := &worker{proc: p, link: l, seat: seat, since: time.Now()}
	f.seats[seat] = w
	f.all = append(f.all, w)
	go f.watch(w)
}

// watch starts another worker in the seat of one that ended by itself.
func (f *fleet) watch(w *worker) {
	<-w.done
	// The link stays: what the worker sent before it died may still be held.
	if !f.seated(w, func() { f.exits[w.how()]++ }) {
		return
	}
	wait := restartWait
	if time.Since(w.since) < restartLonger {
		wait = restartLonger
	}
	time.Sleep(wait)
	f.seated(w, func() { f.spawn(w.seat) })
}

// seated runs do if w still has its seat.
func (f *fleet) seated(w *worker, do func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closing || w.seat >= len(f.seats) || f.seats[w.seat] != w {
		return false
	}
	do()
	return true
}

// scale sets the number of seats. Workers beyond it are asked to end.
func (f *fleet) scale(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := n; i < len(f.seats); i++ {
		f.retire(f.seats[i])
	}
	if n < len(f.seats) {
		f.seats = f.seats[:n]
	}
	for i := len(f.seats); i < n; i++ {
		f.seats = append(f.seats, nil)
		f.spawn(i)
	}
}

// retire ends a worker without a seat. f.mu is held.
func (f *fleet) retire(w *worker) {
	if w == nil {
		return
	}
	f.pending.Go(func() { f.end(w) })
}

func (f *fleet) end(w *worker) {
	if w.ended() {
		return
	}
	if how := w.stop(workerStop); how != endedWell {
		f.mu.Lock()
		f.unclean = append(f.unclean, w.name+": "+how)
		f.mu.Unlock()
	}
}

// pick chooses one of the workers that run, can be reached and have at least
// that age. If an age is given, it chooses one that is connected.
func (f *fleet) pick(n uint32, age time.Duration) *worker {
	var fit []*worker
	for _, w := range f.seats {
		if w != nil && !w.away && !w.ended() && time.Since(w.since) >= age && (age == 0 || w.link.connections() > 0) {
			fit = append(fit, w)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	return fit[int(n)%len(fit)]
}

// on does something to a worker that n chooses. It waits for one if there is
// none.
func (f *fleet) on(n uint32, age time.Duration, do func(*worker)) {
	for late := time.Now().Add(10 * time.Second); time.Now().Before(late); time.Sleep(20 * time.Millisecond) {
		f.mu.Lock()
		w := f.pick(n, age)
		if w != nil {
			do(w)
		} else if f.absent {
			late = time.Now().Add(10 * time.Second)
		}
		f.mu.Unlock()
		if w != nil {
			return
		}
	}
}

// kill ends a worker without warning and fills its seat at once.
func (f *fleet) kill(n uint32) {
	f.on(n, 0, func(w *worker) {
		w.kill()
		if w.killed() {
			f.faults.WorkerKills++
		}
		f.spawn(w.seat)
	})
}

// zombie stops a worker until another must have taken its place, and then lets
// it continue.
func (f *fleet) zombie(n uint32, d time.Duration) {
	f.on(n, settled, func(w *worker) {
		w.signal(syscall.SIGSTOP)
		if !w.stopped() {
			w.signal(syscall.SIGCONT) // late: else it would be a zombie that is never replaced and never continues
			return
		}
		f.faults.Zombies++
		f.replace(w, d, func() { w.signal(syscall.SIGCONT) })
	})
}

// partition holds everything between a worker and the servers, and delivers it
// late. Half of these workers are killed meanwhile; what they sent still
// arrives.
func (f *fleet) partition(n uint32, d time.Duration) {
	f.on(n, settled, func(w *worker) {
		f.faults.Partitions++
		w.link.hold()
		if n%2 == 1 {
			f.pending.Go(func() {
				time.Sleep(d / 2)
				w.kill()
				f.mu.Lock()
				defer f.mu.Unlock()
				if w.killed() {
					f.faults.WorkerKills++
				}
			})
		}
		f.replace(w, d, func() {
			w.link.release()
			time.Sleep(200 * time.Millisecond) // to be delivered and counted
			f.mu.Lock()
			defer f.mu.Unlock()
			if late := w.link.late.Load(); late > 0 {
				f.faults.LatePartitions++
				f.faults.LateBytes += late
			}
		})
	})
}

// replace gives the seat of an unreachable worker to another one. When the first
// comes back after d, it has some time to do harm, and is then asked to end. f.mu
// is held.
func (f *fleet) replace(w *worker, d time.Duration, back func()) {
	w.away = true
	from := time.Now()
	f.spawn(w.seat)
	f.pending.Go(func() {
		time.Sleep(d)
		f.mu.Lock()
		f.sleeps = append(f.sleeps, sleep{from, time.Now()})
		f.mu.Unlock()
		back()
		select {
		case <-w.done:
			f.mu.Lock()
			defer f.mu.Unlock()
			if !w.killed() {
				f.exits[w.how()+" when it came back"]++
			}
		case <-time.After(zombieGrace):
			f.end(w)
		}
	})
}

// cut resets a worker's connections and refuses new ones for d.
func (f *fleet) cut(n uint32, d time.Duration) {
	f.on(n, settled, func(w *worker) {
		w.link.cut()
		f.faults.Cuts++
		f.faults.CutConns += w.link.lost.Swap(0)
		f.pending.Go(func() { time.Sleep(d); w.link.mend() })
	})
}

// oneWay holds one direction of all connections of a worker for d, which is
// longer than the worker waits for an answer: it hears but is not heard, or the
// reverse. Then the data is delivered, or lost with the connections.
func (f *fleet) oneWay(n uint32, d time.Duration) {
	f.on(n, settled, func(w *worker) {
		f.faults.OneWay++
		w.link.holdOne(direction(n % 2))
		f.replace(w, d, func() {
			if n%4 < 2 {
				w.link.cut()
				w.link.release()
				time.Sleep(50 * time.Millisecond)
				w.link.mend()
				return
			}
			w.link.release()
			time.Sleep(200 * time.Millisecond)
		})
	})
}

// cutAll resets every worker's connections and refuses new ones until mendAll.
func (f *fleet) cutAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.seats {
		if w != nil {
			w.link.cut()
		}
	}
}

func (f *fleet) mendAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.all {
		w.link.mend()
	}
}

// slow adds latency between a worker and the servers for d.
func (f *fleet) slow(n uint32, d time.Duration) {
	f.on(n, 0, func(w *worker) {
		w.link.slow(time.Duration(5+n%40) * time.Millisecond)
		f.faults.Slow++
		f.pending.Go(func() { time.Sleep(d); w.link.slow(f.lag) })
	})
}

// restart ends a worker orderly and starts another.
func (f *fleet) restart(n uint32) {
	f.on(n, 0, func(w *worker) {
		f.faults.CleanRestarts++
		f.seats[w.seat] = nil
		f.pending.Go(func() {
			f.end(w)
			f.mu.Lock()
			defer f.mu.Unlock()
			if !f.closing && w.seat < len(f.seats) && f.seats[w.seat] == nil {
				f.spawn(w.seat)
			}
		})
	})
}

// stopAll ends every worker orderly. The result says which ones did not end so.
func (f *fleet) stopAll() (unclean []string) {
	f.mu.Lock()
	f.closing = true
	before := len(f.unclean)
	for _, w := range f.seats {
		f.retire(w)
	}
	f.mu.Unlock()
	f.pending.Wait()
	for _, l := range f.links {
		l.close()
	}
	return f.unclean[before:]
}
