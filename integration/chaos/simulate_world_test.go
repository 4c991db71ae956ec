//go:build simulation && chaos && linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// world is everything in a bubble: a NATS server with its store, the network, and the
// workers of a job. Random numbers, clock and the order of goroutines come from
// the seed.
type world struct {
	dir     string        // of the stores of the servers
	disk    *disk         // of the newest store
	payload int           // largest message, bytes; 0 = a stock server's
	always  bool          // the server syncs before each acknowledgement
	lag     time.Duration // longest delay of a piece of data of a worker
	unsafe  string        // safeguard disabled in the workers
	keep    time.Duration // how long workers keep replaced snapshots and rows
	single  bool          // every second worker takes one message in a batch
	rng     *rand.Rand
	log     *slog.Logger
	trace   hash.Hash64 // of all log lines
	sink    io.Writer   // of log lines
	tasks   sync.WaitGroup
	counts  map[string]int        // faults that happened, by name
	clocks  int                   // wall clocks of workers and guests
	ahead   map[int]time.Duration // of wall clocks
	wrong   int                   // log lines of workers with a wrong time
	begin   time.Time

	mu      sync.Mutex
	server  *server.Server // nil while the server is down
	unwell  *atomic.Bool   // the server's log reports a failed write
	filled  bool           // the disk of a server has been full
	stores  int            // number of stores so far
	cables  []*cable
	workers []*seat
	all     []*simulated // all workers ever started
	closing bool
	exits   map[string]int // ends of workers without a fault, by error
	strange []error        // of these, errors other than of a connection
}

func newWorld(seed uint64, dir string, out io.Writer) *world {
	w := &world{
		dir: dir, rng: rand.New(rand.NewPCG(seed, 1<<34)), trace: fnv.New64a(),
		begin: time.Now(), counts: map[string]int{}, ahead: map[int]time.Duration{}, exits: map[string]int{},
	}
	w.sink = w.trace
	if out != nil {
		w.sink = io.MultiWriter(w.trace, out)
	}
	w.disk = watchDisk(w.store(0))
	w.log = slog.New(slog.NewTextHandler(w.sink, nil))
	return w
}

func (w *world) store(n int) string { return filepath.Join(w.dir, fmt.Sprint("store-", n)) }

// newCable makes the connection of a participant to the network. w.mu is held.
func (w *world) newCable(name string) *cable {
	c := &cable{world: w, name: name, rng: rand.New(rand.NewPCG(w.rng.Uint64(), uint64(len(w.cables))))}
	w.cables = append(w.cables, c)
	return c
}

// safeCable makes a cable without faults of its own.
func (w *world) safeCable(name string) *cable {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.newCable(name)
}

// dial connects a participant of the harness.
func (w *world) dial(name string) (*nats.Conn, error) {
	return nats.Connect("", append(natsclient.LongLived(name, nil), nats.InProcessServer(w.safeCable(name)))...)
}

// seat is a place for a worker, as of a supervisor: if the worker ends, a new worker starts.
type seat struct {
	worker *simulated
	clock  int
}

// simulated is a worker of the stage.
type simulated struct {
	name  string
	cable *cable
	stop  context.CancelFunc
	conns []*nats.Conn
	done  chan struct{}
	since time.Time
	seat  *seat
	log   bytes.Buffer
	err   error // of its end
	away  bool  // a fault ends it, and starts another worker
}

func newEngine(net *reservoir.Network, slots int) (reservoir.Engine, error) {
	return cpu.New(net, slots, cpu.Options{Kind: cpu.Generic})
}

// count counts a fault that happened.
func (w *world) count(fault string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[fault]++
}

// fillSeat starts a worker in a seat, unless the seat is gone or has another worker than
// left.
func (w *world) fillSeat(s *seat, left *simulated, job pipeline.Job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.worker == left && slices.Contains(w.workers, s) {
		w.spawnWorker(s, job)
	}
}

// spawnWorker starts a worker in a seat. w.mu is held.
func (w *world) spawnWorker(s *seat, job pipeline.Job) {
	if w.closing {
		return
	}
	name := fmt.Sprintf("w%02d", len(w.all)+1)
	ctx, stop := context.WithCancel(context.Background())
	v := &simulated{name: name, seat: s, cable: w.newCable(name), stop: stop, done: make(chan struct{}), since: time.Now()}
	v.cable.lag = w.lag
	job.Log = slog.New(wrongTimes{slog.NewTextHandler(io.MultiWriter(w.sink, &v.log), nil), w}).With("worker", name)
	job.Dial = func(ctx context.Context, conn string) (*nats.Conn, error) {
		nc, err := nats.Connect("", append(natsclient.LongLived(conn, job.Log), nats.InProcessServer(v.cable))...)
		if err == nil {
			w.mu.Lock()
			v.conns = append(v.conns, nc)
			w.mu.Unlock()
		}
		return nc, err
	}
	job.NewEngine = newEngine
	if w.single && len(w.all)%2 == 1 {
		job.Config.RowBudget = 1
	}
	s.worker = v
	w.all = append(w.all, v)
	w.tasks.Go(func() {
		simSetClock(s.clock)
		stage := &pipeline.Worker{Job: job}
		stage.KeepReplaced(w.keep)
		err := stage.Unsafe(w.unsafe)
		if err == nil {
			err = stage.Run(ctx)
		}
		stop()
		w.mu.Lock()
		conns := v.conns
		v.conns = nil
		w.mu.Unlock()
		for _, nc := range conns {
			nc.Close()
		}
		v.err = err
		close(v.done)
		job.Log.Info("worker ended", "err", err)
		w.replace(s, v, err, job)
	})
}

// replace starts a new worker in the seat of a worker that ended by itself.
func (w *world) replace(s *seat, v *simulated, err error, job pipeline.Job) {
	w.mu.Lock()
	mine := !w.closing && !v.away && s.worker == v && slices.Contains(w.workers, s)
	if mine {
		w.exits[fmt.Sprint(err)]++
		if !isDisconnect(err) && !(w.filled && isDiskFull(err)) {
			w.strange = append(w.strange, err)
		}
	}
	w.mu.Unlock()
	if !mine {
		return
	}
	wait := restartWait
	if time.Since(v.since) < restartLonger {
		wait = restartLonger
	}
	time.Sleep(wait)
	w.fillSeat(s, v, job)
}

// isDisconnect reports whether a broken connection is the cause of an error.
func isDisconnect(err error) bool {
	for _, cause := range []error{nats.ErrNoServers, nats.ErrReconnectBufExceeded, nats.ErrConnectionClosed, nats.ErrStaleConnection, nats.ErrTimeout, context.DeadlineExceeded, os.ErrDeadlineExceeded, io.EOF} {
		if errors.Is(err, cause) {
			return true
		}
	}
	// A server whose first PING overtakes its PONG, on a slow connection.
	return strings.Contains(err.Error(), "nats: expected 'PONG', got 'PING'")
}

// isDiskFull reports whether the server could not create a bucket or a NATS stream for a lack
// of space.
func isDiskFull(err error) bool {
	return strings.Contains(err.Error(), "error creating store") || strings.Contains(err.Error(), "no space left on device")
}

// setScale sets the number of seats. Superfluous workers stop cleanly.
func (w *world) setScale(n int, job pipeline.Job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.workers) > n {
		last := w.workers[len(w.workers)-1]
		w.workers = w.workers[:len(w.workers)-1]
		last.worker.stop()
	}
	for len(w.workers) < n {
		s := &seat{clock: w.newClock()}
		w.workers = append(w.workers, s)
		w.spawnWorker(s, job)
	}
}

func (w *world) isClosing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closing
}

// close ends all workers and the server, and waits for their goroutines.
func (w *world) close(others ...*nats.Conn) {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	for _, v := range w.all {
		v.stop()
	}
	for _, v := range w.all {
		<-v.done
	}
	for _, nc := range others {
		nc.Close()
	}
	w.mu.Lock()
	ns := w.server
	w.server = nil
	w.mu.Unlock()
	if ns != nil {
		w.endServer(ns, "")
	}
	for _, c := range w.cables {
		c.end()
	}
	w.tasks.Wait()
}
