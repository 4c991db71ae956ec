//go:build simulation && chaos && linux

package main

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"
)

// serverClock is the wall clock of all servers of a history; each worker and each guest has a
// clock of its own, and clock 0 is that of the harness. The overlay of tools/simulate lets
// goroutines and timers inherit the number of a clock. Timers and differences of times use the
// monotonic clock of the bubble, which never jumps.
const serverClock = 1

const (
	longestJump = 24 * time.Hour
	// shortJump is the longest jump ahead of the server that ends. Entries of living workers
	// have the server's time and expire later than it: after a jump of a day and back, the
	// partitions of a worker that died meanwhile would wait for a day (docs/faults.md).
	shortJump = 20 * time.Second
)

// withClock runs f with a wall clock.
func withClock(clock int, f func()) {
	before := simGetClock()
	simSetClock(clock)
	defer simSetClock(before)
	f()
}

// newClock returns the number of another wall clock.
func (w *world) newClock() int {
	w.clocks++
	return serverClock + w.clocks
}

// jump lets a wall clock jump.
func (w *world) jump(clock int, by time.Duration) {
	w.ahead[clock] += by
	simSetWall(clock, int64(w.ahead[clock]))
}

// drawJumps draws jumps of clocks, after all other draws. Stored damage has limits of its
// own, which the harness reads from the logs of the workers with their times.
func (s *scenario) drawJumps(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1<<44))
	if !s.May.isLenient() && rng.Float64() < .25 {
		s.Jumps = 1 + rng.IntN(3)
	}
}

// jumpClocks lets the clock of a participant jump, or those of all participants.
func (h *history) jumpClocks(e event) {
	w := h.world
	var clocks []int
	var names []string
	add := func(name string, clock int) { clocks, names = append(clocks, clock), append(names, name) }
	if h.gateway == nil { // its oracle orders losses of power and messages by the server's time
		add("server", serverClock)
	}
	for _, g := range h.guests {
		add(g.name, g.clock)
	}
	w.mu.Lock()
	for _, s := range w.workers {
		add("worker", s.clock)
	}
	w.mu.Unlock()
	if which := int(e.pick>>16) % (1 + len(clocks)); which < len(clocks) {
		clocks, names = clocks[which:which+1], names[which:which+1]
	}
	rng := rand.New(rand.NewPCG(h.seed, uint64(e.pick)))
	by := time.Duration(math.Exp(rng.Float64()*math.Log(longestJump.Seconds())) * float64(time.Second))
	ends := rng.IntN(2) == 0
	if rng.IntN(2) == 0 {
		by, ends = -by, true
	}
	if names[0] == "server" && by > shortJump {
		ends = false
	}
	w.log.Info("FAULT: "+jumpClock, "of", names, "by", by, "ends", ends)
	for i, c := range clocks {
		w.jump(c, by)
		w.count(jumpClock + " of the " + names[i])
	}
	if !ends {
		return
	}
	time.Sleep(e.d)
	for _, c := range clocks {
		w.jump(c, -by)
	}
}

// wrongTimes counts the log lines whose time is not that of the harness.
type wrongTimes struct {
	slog.Handler
	world *world
}

func (l wrongTimes) Handle(ctx context.Context, r slog.Record) error {
	withClock(0, func() {
		if time.Now().UnixNano() != r.Time.UnixNano() {
			l.world.wrong++
		}
	})
	return l.Handler.Handle(ctx, r)
}

func (l wrongTimes) WithAttrs(all []slog.Attr) slog.Handler {
	return wrongTimes{l.Handler.WithAttrs(all), l.world}
}
