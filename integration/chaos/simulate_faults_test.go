//go:build simulation && chaos && linux

package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// drawScenario draws a scenario of a small job and short faults from a seed.
func drawScenario(seed uint64) *scenario {
	rng := rand.New(rand.NewPCG(seed, 1<<35))
	chance := func(p float64) bool { return rng.Float64() < p }
	upTo := func(p float64, n int) int {
		if !chance(p) {
			return 0
		}
		return 1 + rng.IntN(n)
	}
	s := &scenario{
		Name: fmt.Sprint("simulated ", seed), Nodes: 1, Partitions: 1 + rng.IntN(6), Load: time.Duration(10+rng.IntN(20)) * time.Second,
		Policy: []string{"marked", "early", "each", "count", "window"}[rng.IntN(5)], Reorder: []int{0, 2, stageReorder}[rng.IntN(3)],
	}
	s.Traffic = traffic{Keys: 2 + rng.IntN(10), Messages: 8 + rng.IntN(32), Rows: 1 + rng.IntN(8), LateBy: 1 + rng.IntN(4)}
	if chance(.5) {
		s.Traffic.Gateways = 2 + rng.IntN(4)
	}
	for _, share := range []*float64{&s.Traffic.Repeat, &s.Traffic.Late, &s.Traffic.Missing, &s.Traffic.Damaged, &s.Traffic.Deaths} {
		if chance(.5) {
			*share = .1 * rng.Float64()
		}
	}
	if s.Traffic.Deaths > 0 && chance(.5) {
		s.Traffic.Reuse = .5
	}
	s.Workers = []int{1 + rng.IntN(3)}
	for range upTo(.4, 3) {
		s.Workers = append(s.Workers, 1+rng.IntN(3))
	}
	if chance(.3) {
		s.Slots = 4 + rng.IntN(12)
	}
	if chance(.2) {
		s.Idle = sparseIdle
	}
	if chance(.2) {
		s.Lag = time.Duration(1+rng.IntN(50)) * time.Millisecond
	}
	s.Kills, s.Zombies, s.Splits, s.OneWay = upTo(.6, 3), upTo(.4, 2), upTo(.3, 2), upTo(.3, 2)
	s.Cuts, s.Slow, s.Restarts, s.ServerKills = upTo(.4, 3), upTo(.3, 2), upTo(.4, 2), upTo(.4, 3)
	s.SyncAlways = chance(.5)
	if chance(.15) { // commits of several messages
		const largest = 16 << 10 // bytes of an input message
		s.Policy, s.Traffic, s.Classes, s.MaxMessage, s.MaxPayload = "each", broad, 100, largest, largest+16<<10
		s.Traffic.Keys, s.Traffic.Messages = 1+rng.IntN(4), 4+rng.IntN(8)
		s.Lag, s.Kills, s.Load = time.Duration(5+rng.IntN(40))*time.Millisecond, 4+rng.IntN(8), 20*time.Second
	}
	s.drawChanges(rng)
	if s.Classes == 0 && chance(.3) {
		s.drawDamage(rng)
	}
	s.drawRivals(seed)
	s.drawTrims(seed)
	s.drawReturn(seed)
	s.drawLate(seed)
	s.drawStates(seed)
	s.drawAlterations(seed)
	s.drawNarrow(seed)
	s.drawFills(seed)
	s.drawJumps(seed)
	return s
}

// losesPower reports whether the server may lose power: its disk must keep what was synced.
func (s *scenario) losesPower() bool {
	return s.SyncAlways && s.ServerKills > 0 || s.countHarms(unsynced) > 0
}

// drawKeeping draws how long workers keep replaced snapshots and rows: no
// history is as long as the time of the product, so half of them have a shorter time.
func (s *scenario) drawKeeping(seed uint64) time.Duration {
	if s.countHarms(plucks) > 0 { // unneeded rows are removed at once
		return 0
	}
	rng := rand.New(rand.NewPCG(seed, 1<<36))
	if s.countHarms(trims) > 0 && rng.IntN(2) == 0 {
		return 0 // no older snapshot and no input: only the newest snapshot has the state
	}
	return []time.Duration{owner.KeepReplaced, owner.KeepReplaced, 0, time.Duration(1+rng.IntN(5)) * time.Second}[rng.IntN(4)]
}

// jobConfig is the configuration of the workers; scenario.config has the same values for
// processes.
func (s *scenario) jobConfig() pipeline.Config {
	c := pipeline.Defaults()
	c.Job, c.Partitions, c.Shards, c.RowBudget = job, s.Partitions, min(2, s.Partitions), 512
	if c.Reorder = s.Reorder; s.Reorder == 0 {
		c.Reorder = -1
	}
	c.SnapshotMessages, c.SnapshotEvery, c.Lease, c.Idle = cmp.Or(s.Snapshots, 10), 4*time.Second, lease, s.Idle
	if s.Slots > 0 {
		c.MaxSlots = s.Slots
	}
	if s.MaxMessage > 0 {
		c.MaxMessage = s.MaxMessage
	}
	return c
}

// breakWorld lets the faults of a schedule happen.
func (h *history) breakWorld(events []event, js jetstream.JetStream) {
	begin := time.Now()
	for _, e := range events {
		time.Sleep(time.Until(begin.Add(e.time)))
		h.world.log.Info("FAULT", "kind", e.kind, "pick", e.pick, "for", e.d)
		h.applyFault(e, js)
	}
}

func (h *history) applyFault(e event, js jetstream.JetStream) {
	w := h.world
	switch e.kind {
	case harming:
		switch h.scenario.Harms[e.pick].Kind {
		case promotion:
			h.faults.Go(func() { h.promoteReadout(e.pick) })
		case resizing:
			h.resizeJob(e.pick, js) // other faults of workers wait
		case realters:
			h.altered = &alteration{pick: e.pick}
		case lateEvents:
			h.delayEnds(e.pick)
		case latePromotion:
			h.faults.Go(func() { h.promoteLate(e.pick) })
		case foreign:
			if err := h.publishForeign(js); err == nil {
				w.count(foreign)
			}
		case trims:
			h.trimInput(js)
		case relays, strips, plucks:
			h.killNarrowly(h.scenario.Harms[e.pick].Kind, e.pick, js)
		case rival:
			h.faults.Go(func() { h.runRival(js) })
		default:
			h.damage(h.scenario.Harms[e.pick].Kind, e.pick, js)
		}
		return
	case scaleTo:
		w.setScale(int(e.pick), h.job)
		w.count(e.kind)
		return
	case jumpClock:
		h.faults.Go(func() { h.jumpClocks(e) })
		return
	case fillDisk:
		h.faults.Go(func() { h.fillDisks(e) })
		return
	case killServer:
		w.mu.Lock()
		up := w.server != nil
		w.mu.Unlock()
		if !up {
			return
		}
		h.faults.Go(func() {
			if err := w.killServer(e.d, w.always && e.pick>>16%2 == 0); err != nil && err != errRefused {
				h.fail("the server does not start after a kill: %v", err)
			}
		})
		return
	}
	w.mu.Lock()
	if len(w.workers) == 0 { // a resize did not end
		w.mu.Unlock()
		return
	}
	seat := w.workers[int(e.pick)%len(w.workers)]
	v := seat.worker
	if e.kind == killWorker || e.kind == endWorker {
		v.away = true
	}
	w.mu.Unlock()
	switch e.kind {
	case killWorker:
		// Nothing that the worker does from now on reaches the server. Its goroutines end
		// with the world.
		h.faults.Go(func() {
			if e.pick>>24%2 == 0 {
				v.awaitMoment(e.pick>>8, h.scenario.ownMoments())
			}
			v.cable.end()
			time.Sleep(restartWait)
			w.fillSeat(seat, v, h.job)
		})
	case stopWorker, partitioning: // data of both directions waits, and arrives late
		v.cable.hold(e.d, toServer, toWorker)
		h.faults.Go(func() { time.Sleep(e.d) })
	case oneWayCut:
		v.cable.hold(e.d, direction(e.pick>>8%2))
		h.faults.Go(func() { time.Sleep(e.d) })
	case cutWorker:
		h.faults.Go(func() {
			if e.pick>>8%2 == 0 { // data on the way is lost
				v.cable.hold(2*time.Second, toWorker)
				time.Sleep(time.Duration(1+e.pick>>16%1000) * time.Millisecond)
				v.cable.hold(0, toWorker)
			}
			v.cable.cut(e.d)
		})
	case slowWorker:
		lag := time.Duration(1+e.pick>>8%200) * time.Millisecond
		v.cable.setLag(lag)
		h.faults.Go(func() { time.Sleep(e.d); v.cable.setLag(h.scenario.Lag) })
	case endWorker:
		v.stop()
		h.faults.Go(func() { <-v.done; w.fillSeat(seat, v, h.job) })
	}
	w.count(e.kind)
}
