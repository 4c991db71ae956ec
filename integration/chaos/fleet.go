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
	zombieGrace   = 2 * time.Second        // time for a woken worker to try a commit
	restartWait   = 200 * time.Millisecond // before a worker that ended by itself restarts
	restartLonger = time.Second            // if the worker lived shorter than this
	settled       = 2 * time.Second        // by then a worker has work, a condition of zombies and partitions
)

// fleet keeps a number of workers running. Each worker has a seat; if a worker ends, a
// new worker starts in the seat, as under a supervisor.
type fleet struct {
	procs   *children
	cluster *cluster
	args    []string      // without the server's address
	lag     time.Duration // of every new link
	env     []string

	mu      sync.Mutex
	seats   []*worker
	all     []*worker // all workers ever started
	links   []*link   // of all workers
	closing bool
	absent  bool           // all workers are stopped while a command changes the job
	pending sync.WaitGroup // unfinished faults

	faults  faultCounts
	exits   map[string]int // workers that ended by themselves, by exit status
	sleeps  []sleep
	unclean []string // unclean ends after SIGTERM
	err     error
}

// worker is a process of the stage, with a link to the servers.
type worker struct {
	*proc
	link  *link
	seat  int
	away  bool // stopped or cut off
	since time.Time
}

// sleep is the time during which a zombie was stopped or cut off.
type sleep struct{ from, to time.Time }

// faultCounts counts faults that happened; each count is checked when the fault is made.
type faultCounts struct {
	WorkerKills    int   `json:"worker_kills"`    // SIGKILL, seen in the exit status
	Zombies        int   `json:"zombies"`         // stopped, seen in /proc, replaced and woken up
	Overtaken      int   `json:"overtaken"`       // zombies and partitions during which another worker committed
	ServerKills    int   `json:"server_kills"`    // SIGKILL, seen in the exit status
	LeaderKills    int   `json:"leader_kills"`    // of the server kills, leaders of the input or the output
	Partitions     int   `json:"partitions"`      // all connections of a worker held, at least one
	LatePartitions int   `json:"late_partitions"` // of the partitions, those with traffic in flight that arrived late
	LateBytes      int64 `json:"late_bytes"`      // bytes of this traffic
	Cuts           int   `json:"cuts"`            // connections reset and refused for a while
	CutConns       int64 `json:"cut_conns"`       // reset connections
	OneWay         int   `json:"one_way"`         // one direction of all connections of a worker held, then delivered or reset
	Slow           int   `json:"slow"`            // periods of added latency
	CleanRestarts  int   `json:"clean_restarts"`  // SIGTERM, then a new worker
	ScaleSteps     int   `json:"scale_steps"`

	Harms map[string]int `json:"harms,omitempty"` // damage to the servers' stores, by kind, each checked when made
}

func (f *fleet) setError(err error) {
	if f.err == nil {
		f.err = err
	}
}

// spawnWorker fills a seat. f.mu is held.
func (f *fleet) spawnWorker(seat int) {
	l, err := newLink(f.cluster)
	if err != nil {
		f.setError(err)
		return
	}
	l.slow(f.lag)
	f.links = append(f.links, l)
	p, err := f.procs.start(fmt.Sprintf("w%02d", len(f.links)), f.env, append(slices.Clone(f.args), "--nats-url", l.urls())...)
	if err != nil {
		f.setError(err)
		return
	}
	w := &worker{proc: p, link: l, seat: seat, since: time.Now()}
	f.seats[seat] = w
	f.all = append(f.all, w)
	go f.watchWorker(w)
}

// watchWorker starts a new worker in the seat of a worker that ended by itself.
func (f *fleet) watchWorker(w *worker) {
	<-w.done
	// The link stays: data that the worker sent before its death may still be held.
	if !f.ifSeated(w, func() { f.exits[w.exitStatus()]++ }) {
		return
	}
	wait := restartWait
	if time.Since(w.since) < restartLonger {
		wait = restartLonger
	}
	time.Sleep(wait)
	f.ifSeated(w, func() { f.spawnWorker(w.seat) })
}

// ifSeated runs do if w still has its seat.
func (f *fleet) ifSeated(w *worker, do func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closing || w.seat >= len(f.seats) || f.seats[w.seat] != w {
		return false
	}
	do()
	return true
}

// setScale sets the number of seats. Superfluous workers get SIGTERM.
func (f *fleet) setScale(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := n; i < len(f.seats); i++ {
		f.retireWorker(f.seats[i])
	}
	if n < len(f.seats) {
		f.seats = f.seats[:n]
	}
	for i := len(f.seats); i < n; i++ {
		f.seats = append(f.seats, nil)
		f.spawnWorker(i)
	}
}

// retireWorker ends a worker without a seat. f.mu is held.
func (f *fleet) retireWorker(w *worker) {
	if w == nil {
		return
	}
	f.pending.Go(func() { f.endWorker(w) })
}

func (f *fleet) endWorker(w *worker) {
	if w.hasEnded() {
		return
	}
	if how := w.stop(workerStop); how != endedWell {
		f.mu.Lock()
		f.unclean = append(f.unclean, w.name+": "+how)
		f.mu.Unlock()
	}
}

// pickWorker selects a running, reachable worker of at least the given age. If an age is
// given, the worker is connected.
func (f *fleet) pickWorker(n uint32, age time.Duration) *worker {
	var fit []*worker
	for _, w := range f.seats {
		if w != nil && !w.away && !w.hasEnded() && time.Since(w.since) >= age && (age == 0 || w.link.countConnections() > 0) {
			fit = append(fit, w)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	return fit[int(n)%len(fit)]
}

// onWorker calls do with the worker that n selects, and waits for a worker if there is
// none.
func (f *fleet) onWorker(n uint32, age time.Duration, do func(*worker)) {
	for late := time.Now().Add(10 * time.Second); time.Now().Before(late); time.Sleep(20 * time.Millisecond) {
		f.mu.Lock()
		w := f.pickWorker(n, age)
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

// killWorker kills a worker and refills its seat at once.
func (f *fleet) killWorker(n uint32) {
	f.onWorker(n, 0, func(w *worker) {
		w.kill()
		if w.wasKilled() {
			f.faults.WorkerKills++
		}
		f.spawnWorker(w.seat)
	})
}

// stopWorker stops a worker until a new worker must have taken over, and then continues
// the stopped worker (a zombie).
func (f *fleet) stopWorker(n uint32, d time.Duration) {
	f.onWorker(n, settled, func(w *worker) {
		w.signal(syscall.SIGSTOP)
		if !w.isStopped() {
			w.signal(syscall.SIGCONT) // late: otherwise a zombie would never be replaced or continue
			return
		}
		f.faults.Zombies++
		f.replaceWorker(w, d, func() { w.signal(syscall.SIGCONT) })
	})
}

// partitionWorker holds all data between a worker and the servers, and delivers it late.
// Half of these workers are killed meanwhile; their data still arrives.
func (f *fleet) partitionWorker(n uint32, d time.Duration) {
	f.onWorker(n, settled, func(w *worker) {
		f.faults.Partitions++
		w.link.hold()
		if n%2 == 1 {
			f.pending.Go(func() {
				time.Sleep(d / 2)
				w.kill()
				f.mu.Lock()
				defer f.mu.Unlock()
				if w.wasKilled() {
					f.faults.WorkerKills++
				}
			})
		}
		f.replaceWorker(w, d, func() {
			w.link.release()
			time.Sleep(200 * time.Millisecond) // wait for delivery and counting
			f.mu.Lock()
			defer f.mu.Unlock()
			if late := w.link.late.Load(); late > 0 {
				f.faults.LatePartitions++
				f.faults.LateBytes += late
			}
		})
	})
}

// replaceWorker gives the seat of an unreachable worker to a new worker. After d the
// unreachable worker returns, has some time to do harm, and then gets SIGTERM. f.mu is
// held.
func (f *fleet) replaceWorker(w *worker, d time.Duration, back func()) {
	w.away = true
	from := time.Now()
	f.spawnWorker(w.seat)
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
			if !w.wasKilled() {
				f.exits[w.exitStatus()+" when it came back"]++
			}
		case <-time.After(zombieGrace):
			f.endWorker(w)
		}
	})
}

// cutWorker resets a worker's connections and refuses new connections for d.
func (f *fleet) cutWorker(n uint32, d time.Duration) {
	f.onWorker(n, settled, func(w *worker) {
		w.link.cut()
		f.faults.Cuts++
		f.faults.CutConns += w.link.lost.Swap(0)
		f.pending.Go(func() { time.Sleep(d); w.link.mend() })
	})
}

// holdOneWay holds one direction of all connections of a worker for d, longer than the
// worker waits for an answer: the worker receives but cannot send, or the reverse. Then
// the data is delivered, or lost with the connections.
func (f *fleet) holdOneWay(n uint32, d time.Duration) {
	f.onWorker(n, settled, func(w *worker) {
		f.faults.OneWay++
		w.link.holdOne(direction(n % 2))
		f.replaceWorker(w, d, func() {
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

// cutAll resets every worker's connections and refuses new connections until mendAll.
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

// slowWorker adds latency between a worker and the servers for d.
func (f *fleet) slowWorker(n uint32, d time.Duration) {
	f.onWorker(n, 0, func(w *worker) {
		w.link.slow(time.Duration(5+n%40) * time.Millisecond)
		f.faults.Slow++
		f.pending.Go(func() { time.Sleep(d); w.link.slow(f.lag) })
	})
}

// restartWorker ends a worker cleanly and starts a new worker.
func (f *fleet) restartWorker(n uint32) {
	f.onWorker(n, 0, func(w *worker) {
		f.faults.CleanRestarts++
		f.seats[w.seat] = nil
		f.pending.Go(func() {
			f.endWorker(w)
			f.mu.Lock()
			defer f.mu.Unlock()
			if !f.closing && w.seat < len(f.seats) && f.seats[w.seat] == nil {
				f.spawnWorker(w.seat)
			}
		})
	})
}

// stopAll ends every worker cleanly, and returns the workers with an unclean end.
func (f *fleet) stopAll() (unclean []string) {
	f.mu.Lock()
	f.closing = true
	before := len(f.unclean)
	for _, w := range f.seats {
		f.retireWorker(w)
	}
	f.mu.Unlock()
	f.pending.Wait()
	for _, l := range f.links {
		l.closeLink()
	}
	return f.unclean[before:]
}
