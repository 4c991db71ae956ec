//go:build simulation && chaos && linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
)

// guest is a process next to the stage: a gateway or a keeper of alarms. If the process
// ends, the next one starts on its files, as under a supervisor.
type guest struct {
	world *world
	name  string
	serve func(*life) error    // until the life's context ends
	may   func(err error) bool // whether the process may end with an error
	fails func(string, ...any) // reports another error
	disk  *disk                // of the files of the newest process; nil: it has none
	boots int                  // starts of its machine after a loss of power
	busy  func() bool          // whether a kill loses work in progress; may be nil
	after func(power bool)     // called after a kill; may be nil
	lag   time.Duration        // longest delay of a piece of data
	clock int                  // the wall clock

	lives int
	life  *life // nil: dead, or ended
}

// life is a process of a guest.
type life struct {
	*guest
	dir   string // of its files
	cable *cable
	ctx   context.Context
	stop  context.CancelFunc
	log   *slog.Logger
	dead  chan struct{} // closed by a kill
	done  chan struct{} // closed at the end
	err   error         // of the end

	ending bool // no other process starts after its end
}

// guestFault is a fault of a guest at a time.
type guestFault struct {
	time  time.Duration
	kind  string
	guest *guest
	d     time.Duration // until the end of the fault, or the next process
}

const (
	killGuest  = "kill"
	losePower  = "power loss"
	cutGuest   = "cut"
	busyWithin = time.Second // a kill waits for work in progress
)

// newGuest adds a guest to the history.
func (h *history) newGuest(name string, serve func(*life) error, may func(error) bool) *guest {
	g := &guest{world: h.world, name: name, serve: serve, may: may, fails: h.fail, clock: h.world.newClock()}
	h.guests = append(h.guests, g)
	return g
}

// drawGuests draws the guests of a history and their faults. They have random numbers of
// their own: the other choices of a seed do not depend on the guests.
func (h *history) drawGuests() (faults []guestFault, err error) {
	if h.scenario.May.isLenient() { // acknowledged data may be lost
		return nil, nil
	}
	asked := strings.Split(os.Getenv("GUESTS"), ",")
	for i, kind := range []struct {
		name  string
		share float64
		add   func(*rand.Rand) error
	}{{"gateway", .25, h.addDoor}, {"alarms", .2, h.addAlarms}, {"recorder", .2, h.addRecorder}, {"learner", .15, h.addLearner}, {"backfill", .15, h.addBackfill}} {
		rng, before := rand.New(rand.NewPCG(h.seed, 1<<37+uint64(i))), len(h.guests)
		if comes := rng.Float64() < kind.share; !comes && !slices.Contains(asked, kind.name) {
			continue
		}
		if err := kind.add(rng); err != nil {
			return nil, err
		}
		for _, g := range h.guests[before:] {
			faults = append(faults, h.drawGuestFaults(rng, g)...)
		}
	}
	slices.SortFunc(faults, func(a, b guestFault) int { return cmp.Compare(a.time, b.time) })
	return faults, nil
}

// startGuests starts the guests, their faults and their devices.
func (h *history) startGuests(ctx context.Context, js jetstream.JetStream, faults []guestFault) {
	for _, g := range h.guests {
		g.start()
	}
	h.faults.Go(func() { h.breakGuests(faults) })
	h.startPipelines()
	if h.learner != nil {
		h.faults.Go(func() {
			if err := h.labelOutput(ctx, js); err != nil {
				h.fail("labeling: %v", err)
			}
		})
	}
}

// drawGuestFaults draws the network of a guest and its faults.
func (h *history) drawGuestFaults(rng *rand.Rand, g *guest) (faults []guestFault) {
	if g.lag = h.scenario.Lag; rng.IntN(2) == 0 {
		g.lag = time.Duration(1+rng.IntN(200)) * time.Millisecond
	}
	for range 1 + rng.IntN(4) {
		f := guestFault{guest: g, kind: []string{killGuest, killGuest, losePower, losePower, cutGuest, partitioning, oneWayCut}[rng.IntN(7)]}
		f.time, f.d = time.Duration(rng.Float64()*float64(h.scenario.Load)), time.Duration(50+rng.IntN(2000))*time.Millisecond
		if rng.IntN(4) == 0 {
			f.d += 6 * time.Second
		}
		faults = append(faults, f)
	}
	return faults
}

// breakGuests lets the faults of the guests happen.
func (h *history) breakGuests(faults []guestFault) {
	begin, rng := time.Now(), rand.New(rand.NewPCG(h.seed, 1<<38))
	for _, f := range faults {
		time.Sleep(time.Until(begin.Add(f.time)))
		g := f.guest
		l := g.current()
		if l == nil {
			continue
		}
		switch f.kind {
		case killGuest, losePower:
			for late := time.Now().Add(busyWithin); g.busy != nil && !g.busy() && time.Now().Before(late); {
				time.Sleep(time.Millisecond)
			}
			g.kill(rng, f.kind == losePower && g.disk != nil)
			h.faults.Go(func() { time.Sleep(f.d); g.start() })
			continue
		case cutGuest:
			l.cable.cut(f.d)
		case partitioning:
			l.cable.hold(f.d, toServer, toWorker)
		case oneWayCut:
			l.cable.hold(f.d, direction(rng.IntN(2)))
		}
		h.world.count(f.kind + " of the " + g.name)
		h.world.log.Info("FAULT of a guest", "kind", f.kind, "guest", g.name, "for", f.d)
	}
}

// current returns the process; nil: none.
func (g *guest) current() *life {
	g.world.mu.Lock()
	defer g.world.mu.Unlock()
	return g.life
}

// unreachableWait is the pause of a process between two attempts to reach the server.
const unreachableWait = 500 * time.Millisecond

func (g *guest) folder(n int) string { return filepath.Join(g.world.dir, fmt.Sprint(g.name, "-", n)) }

// start starts a process, unless one runs.
func (g *guest) start() {
	w := g.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing || g.life != nil {
		return
	}
	l := &life{guest: g, dir: g.folder(g.lives), dead: make(chan struct{}), done: make(chan struct{}), cable: w.newCable(g.name)}
	l.cable.lag, l.cable.flows = g.lag, true
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.log = w.log.With("guest", fmt.Sprint(g.name, "-", g.lives))
	g.life = l
	w.tasks.Go(func() {
		simSetClock(g.clock)
		l.err = g.serve(l)
		l.log.Info("guest ended", "err", l.err)
		l.stop()
		close(l.done)
		g.succeed(l)
	})
}

// succeed starts the next process after one that ended by itself.
func (g *guest) succeed(l *life) {
	w := g.world
	w.mu.Lock()
	mine := g.life == l && l.err != nil && !l.ending && !w.closing
	if mine {
		about := strings.SplitN(l.err.Error(), ": ", 3) // the rest names messages
		w.exits[g.name+": "+strings.Join(about[:min(2, len(about))], ": ")]++
	}
	w.mu.Unlock()
	if !mine {
		return
	}
	if !g.may(l.err) {
		g.fails("%s ended: %v", g.name, l.err)
	}
	time.Sleep(restartLonger)
	w.mu.Lock()
	if g.life == l {
		g.life = nil
	}
	w.mu.Unlock()
	g.start()
}

// dial connects a process, and waits for the server.
func (l *life) dial() (*nats.Conn, error) {
	for {
		nc, err := nats.Connect("", append(natsclient.LongLived(l.name, l.log), nats.InProcessServer(l.cable))...)
		if err == nil {
			return nc, nil
		}
		select {
		case <-l.ctx.Done():
			return nil, err
		case <-time.After(unreachableWait):
		}
	}
}

// kill ends a process as SIGKILL does, or as a loss of power of its machine: nothing that
// it does from now on reaches the server, or the files of the next process.
func (g *guest) kill(rng *rand.Rand, power bool) {
	w := g.world
	w.mu.Lock()
	l := g.life
	g.life = nil
	w.mu.Unlock()
	if l == nil {
		return
	}
	close(l.dead)
	l.cable.end()
	g.lives++
	if g.disk != nil {
		if err := g.inheritFiles(l, rng, power); err != nil && !errors.Is(err, fs.ErrNotExist) {
			g.fails("the files of %s are not copied: %v", g.name, err)
		}
	}
	if g.after != nil {
		g.after(power)
	}
	l.stop()
	what := killGuest + " of the " + g.name
	if power {
		what = losePower + " of the " + g.name
	}
	w.count(what)
	w.log.Info("FAULT: " + what)
}

// inheritFiles copies the files of a dead process for the next one.
func (g *guest) inheritFiles(l *life, rng *rand.Rand, power bool) error {
	copied := copyStore
	if power {
		g.boots++
		copied = func(_, to string) error { return g.disk.copyAfterLoss(rng, to) }
	}
	to, before := g.folder(g.lives), g.disk
	_, err := os.Stat(l.dir)
	if err == nil {
		err = copied(l.dir, to)
	}
	g.disk = watchDisk(to)
	before.forget()
	if err != nil { // it has written no files
		g.disk.keeps, g.disk.room = before.keeps, before.room
		return err
	}
	return g.disk.inherit(before, power)
}

// end ends the process cleanly, and returns its error. A dead guest starts first, and after
// a process that ended by itself the next process.
func (g *guest) end() error {
	g.start()
	l := g.current()
	for l == nil || l.hasFailed() {
		time.Sleep(restartLonger)
		l = g.current()
	}
	l.ending = true
	l.stop()
	<-l.done
	return l.err
}

// hasFailed reports whether the process ended by itself with an error.
func (l *life) hasFailed() bool {
	select {
	case <-l.done:
		return l.err != nil
	default:
		return false
	}
}

// endGuests ends all processes, at the end of a history.
func (h *history) endGuests() {
	for _, g := range h.guests {
		if l := g.current(); l != nil {
			l.stop()
			<-l.done
		}
	}
}

// compareGuests compares the results of the guests with the output.
func (h *history) compareGuests(ctx context.Context, js jetstream.JetStream) error {
	if h.keepers != nil {
		if err := h.compareKeepers(ctx, js); err != nil {
			return err
		}
	}
	if h.recorder != nil {
		if err := h.compareRecorder(ctx); err != nil {
			return err
		}
	}
	if h.learner != nil {
		if err := h.compareLearner(ctx, js); err != nil {
			return err
		}
	}
	if h.backfill != nil {
		return h.compareBackfill()
	}
	return nil
}

// countGuests counts states that the guests should reach.
func (h *history) countGuests(seen map[string]int) {
	if v := h.learner; v != nil {
		seen["readouts learned"], seen["rounds of the learner"], seen["labels"] = len(v.names), v.rounds, v.sequences
	}
	if b := h.backfill; b != nil {
		seen["lines of backfills"], seen["kills of backfills"] = b.lines, b.kills
	}
	if r := h.recorder; r != nil {
		seen["files of recordings"], seen["syncs of recordings"], seen["samples recorded"] = r.files, r.syncs, r.samples
	}
	if k := h.keepers; k != nil {
		seen["alarm events"], seen["take-overs of the alarms"], seen["standbys of the alarms"] = k.events, max(0, k.keeps-1), k.standbys
	}
	if g := h.gateway; g != nil {
		seen["lost answers of the gateway"], seen["outboxes left with messages"] = g.lost, g.left
		seen["requests recognized as repeats"], seen["messages doubled by a power loss of the gateway"] = int(g.repeats), h.producers.door.doubled
	}
}
