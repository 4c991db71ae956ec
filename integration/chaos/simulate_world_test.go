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
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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
	rng     *rand.Rand
	log     *slog.Logger
	trace   hash.Hash64 // of all log lines
	sink    io.Writer   // of log lines
	tasks   sync.WaitGroup
	counts  map[string]int // faults that happened, by name
	begin   time.Time

	mu      sync.Mutex
	server  *server.Server // nil while the server is down
	unwell  *atomic.Bool   // the server's log reports a failed write
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
		begin: time.Now(), counts: map[string]int{}, exits: map[string]int{},
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

// startServer starts a server on the newest store.
func (w *world) startServer() error {
	ns, err := server.NewServer(&server.Options{
		ServerName: "n0", DontListen: true, JetStream: true, StoreDir: w.store(w.stores), NoSigs: true, DisableJetStreamBanner: true,
		SyncAlways: w.always, MaxPayload: int32(w.payload), JetStreamLimits: server.JSLimitOpts{DefaultMaxConsumers: -1},
	})
	if err != nil {
		return err
	}
	unwell := new(atomic.Bool)
	ns.SetLoggerV2(serverLog{w.log, unwell}, false, false, false)
	ns.Start()
	if !ns.ReadyForConnections(serverStart) {
		return errors.New("chaos: the simulated server does not start")
	}
	// See natsserver.primeJetStream.
	nc, err := nats.Connect("", nats.InProcessServer(ns))
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := natsclient.AwaitJetStream(context.Background(), nc); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.server, w.unwell = ns, unwell
	return nil
}

// connectServer opens the server's end of a connection.
func (w *world) connectServer() (net.Conn, error) {
	w.mu.Lock()
	ns := w.server
	w.mu.Unlock()
	if ns == nil {
		return nil, errRefused
	}
	return ns.InProcessConn()
}

// killServer ends the server as SIGKILL does: the next server, after down, has the files of
// this moment; after a loss of power it has what was synced, and more.
func (w *world) killServer(down time.Duration, power bool) error {
	if power {
		return w.replaceStore(down, "power loss", func(_, to string) error { return w.disk.copyAfterLoss(w.rng, to) }, true)
	}
	return w.replaceStore(down, "server kill", copyStore, false)
}

// restartServer kills the server, and changes its files before the next one starts.
func (w *world) restartServer(down time.Duration, what string, change func(dir string) error) error {
	var failed error // the next server starts even then
	err := w.replaceStore(down, "stop for "+what, func(from, to string) error {
		if err := copyStore(from, to); err != nil {
			return err
		}
		failed = change(to)
		return nil
	}, false)
	return errors.Join(err, failed)
}

// replaceStore ends the server, and starts the next one on a copy of its store.
func (w *world) replaceStore(down time.Duration, what string, copy func(from, to string) error, power bool) error {
	w.mu.Lock()
	ns := w.server
	if ns == nil {
		w.mu.Unlock()
		return errRefused
	}
	w.server = nil
	w.stores++
	from, to, cables := w.store(w.stores-1), w.store(w.stores), slices.Clone(w.cables)
	w.mu.Unlock()
	if err := copy(from, to); err != nil {
		return err
	}
	before := w.disk
	w.disk = watchDisk(to)
	if err := w.disk.inherit(before, power); err != nil {
		return err
	}
	before.forget()
	for _, c := range cables {
		c.cut(0)
	}
	w.count(what)
	w.log.Info("FAULT: "+what, "down", down)
	// What the old server does from now on reaches no participant and no later server.
	w.tasks.Go(func() { ns.Shutdown(); ns.WaitForShutdown(); os.RemoveAll(from) })
	time.Sleep(down)
	w.disk.room.awaitSpace()
	return w.startServer()
}

// copyStore copies the files of a store. Nothing else runs meanwhile: system calls do not
// yield in a simulation.
func copyStore(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		if d.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o600)
	})
}

// serverLog passes the warnings and errors of the server to the log.
type serverLog struct {
	log    *slog.Logger
	unwell *atomic.Bool
}

func (l serverLog) Noticef(string, ...any)    {}
func (l serverLog) Debugf(string, ...any)     {}
func (l serverLog) Tracef(string, ...any)     {}
func (l serverLog) Warnf(f string, v ...any)  { l.print(slog.LevelWarn, f, v) }
func (l serverLog) Errorf(f string, v ...any) { l.print(slog.LevelError, f, v) }
func (l serverLog) Fatalf(f string, v ...any) { l.print(slog.LevelError, f, v) }

func (l serverLog) print(level slog.Level, f string, v []any) {
	text := fmt.Sprintf(f, v...)
	l.log.Log(context.Background(), level, "server: "+text)
	if strings.Contains(text, syscall.ENOSPC.Error()) {
		l.unwell.Store(true)
	}
}

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
	job.Log = slog.New(slog.NewTextHandler(io.MultiWriter(w.sink, &v.log), nil)).With("worker", name)
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
	s.worker = v
	w.all = append(w.all, v)
	w.tasks.Go(func() {
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
		if !isDisconnect(err) {
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
	for _, cause := range []error{nats.ErrNoServers, nats.ErrReconnectBufExceeded, nats.ErrConnectionClosed, nats.ErrStaleConnection, nats.ErrTimeout, context.DeadlineExceeded, io.EOF} {
		if errors.Is(err, cause) {
			return true
		}
	}
	// A server whose first PING overtakes its PONG, on a slow connection.
	return strings.Contains(err.Error(), "nats: expected 'PONG', got 'PING'")
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
		s := new(seat)
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
		ns.Shutdown()
		ns.WaitForShutdown()
	}
	for _, c := range w.cables {
		c.end()
	}
	w.tasks.Wait()
}
