//go:build simulation && chaos && linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
)

// Kinds of faults in rare states of a job.
const (
	forgets = "loss of a record"   // of one partition, which has snapshots
	reverts = "return of the rows" // to an earlier moment: later rows get the numbers of lost rows

	relays = "kills between parts"               // of two owners of a partition, one after the other
	strips = "kill before a snapshot and a trim" // the entry of the snapshot is missing
	plucks = "kill at the removal of a row"      // after some others
)

// midMessage is in the header of a part that ends between the predictions of a message.
var midMessage = regexp.MustCompile(`Eusn-Ahead: [1-9]`)

// drawNarrow draws such faults, with random numbers of their own.
func (s *scenario) drawNarrow(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1<<52))
	fewSlots := func() {
		s.Partitions, s.Slots, s.Traffic.Keys = 1+rng.IntN(2), 2+rng.IntN(3), 8+rng.IntN(5)
	}
	some := func(kind string, n int) {
		for range n {
			s.Harms = append(s.Harms, harm{Kind: kind, Share: .1 + .7*rng.Float64()})
		}
	}
	switch {
	case s.countHarms(loses) > 0:
		if rng.IntN(2) == 0 {
			s.Harms[0].Kind = forgets
		}
	case s.May.isLenient():
	case s.Classes > 0:
		if rng.IntN(2) == 0 { // batches of several messages
			s.calm()
			s.Harms, s.Partitions, s.Load = nil, 1, 5*time.Second
			s.Traffic.Keys, s.Traffic.Messages = 4+rng.IntN(4), 8+rng.IntN(8)
			some(relays, 3)
		}
	case rng.Float64() < .05:
		s.allowDamage(orStopped)
		fewSlots()
		s.Harms = []harm{{Kind: "backup", Share: .1 + .2*rng.Float64()}, {Kind: reverts, Share: .4 + .3*rng.Float64()}}
	case rng.Float64() < .07 && !s.losesPower():
		fewSlots()
		s.calm()
		s.Harms, s.Snapshots, s.Lag = nil, 1+rng.IntN(4), time.Duration(10+rng.IntN(40))*time.Millisecond
		some(trims, 1)
		some(strips, 3)
		some(plucks, 5)
	}
}

// forgetRecord removes the output of a partition with snapshots, and kills the workers. The
// harness reads its predictions before: no later output may repeat them.
func (h *history) forgetRecord(ctx context.Context, js jetstream.JetStream, rng *rand.Rand) error {
	p := rng.IntN(h.partitions())
	if _, err := readRecord(ctx, js, p); err != nil {
		return err
	}
	h.told = nil // of a damage that did not happen
	_, err := readOn(ctx, js, outputStream, 0, true, func(s stored) error {
		if s.partition == p {
			s.data, s.tokens = bytes.Clone(s.data), slices.Clone(s.tokens)
			h.told = append(h.told, s)
		}
		return nil
	})
	if err != nil {
		return err
	}
	out, err := js.Stream(ctx, outputStream)
	if err != nil {
		return err
	}
	if err := out.Purge(ctx, jetstream.WithPurgeSubject(fmt.Sprintf("%s.out.%d", job, p))); err != nil {
		return err
	}
	h.killAll()
	return nil
}

// checkKept requires that no partition stops for a replaced snapshot if only the output went
// back: an earlier snapshot is kept, and the input is complete.
func (h *history) checkKept(stopped stops) {
	if s := h.scenario; s.countHarms(returns)+s.countHarms(forks) == 0 || h.world.keep != owner.KeepReplaced {
		return
	}
	for p, why := range stopped {
		if strings.Contains(why, "which partition") && strings.Contains(why, "is lost") {
			h.fail("partition %d has no replaced snapshot: %s", p, why)
		}
	}
}

// interruptResize interrupts a resize, as Ctrl-C does, at one of its first records: its
// claims, and the claims, predictions and releases of the drain.
func (h *history) interruptResize(c *cable, stop func()) {
	h.resizes++
	rng := rand.New(rand.NewPCG(h.seed, 1<<53+uint64(h.resizes)))
	if c.moment != nil || rng.IntN(3) > 0 {
		return
	}
	c.arm(&moment{text: "PUB chaos.out.", skip: rng.IntN(4 * h.partitions()), before: rng.IntN(2) == 0, spares: true, cut: func([]byte) {
		h.world.count("interrupt resize")
		stop()
	}})
}

// killAtMoment waits until a worker has reached the moments in their order, kills the worker,
// calls then, and starts the next worker.
func (h *history) killAtMoment(kind string, then func(), at ...moment) {
	w := h.world
	w.mu.Lock()
	var all []*simulated
	for _, s := range w.workers {
		all = append(all, s.worker)
	}
	w.mu.Unlock()
	died := make(chan *simulated, len(all))
	var arm func(v *simulated, at []moment)
	arm = func(v *simulated, at []moment) {
		m, later := at[0], at[1:]
		m.spares = len(later) > 0
		m.cut = func([]byte) {
			if len(later) > 0 {
				arm(v, later)
				return
			}
			w.mu.Lock()
			v.away = true
			w.mu.Unlock()
			died <- v
		}
		v.cable.arm(&m)
	}
	for _, v := range all {
		arm(v, at)
	}
	var killed []*simulated // two may reach the moment
	select {
	case v := <-died:
		killed = append(killed, v)
	case <-time.After(momentWithin):
	}
	for _, v := range all {
		v.cable.arm(nil)
	}
	for len(died) > 0 {
		killed = append(killed, <-died)
	}
	if len(killed) == 0 {
		return
	}
	time.Sleep(restartWait)
	if then != nil {
		then()
	}
	for _, v := range killed {
		v.cable.end()
		w.fillSeat(v.seat, v, h.job)
		w.count(kind)
	}
}

// killNarrowly kills workers at such a state.
func (h *history) killNarrowly(kind string, pick uint32, js jetstream.JetStream) {
	rng := rand.New(rand.NewPCG(h.seed, 1<<54+uint64(pick)))
	switch kind {
	case relays:
		for range 2 { // the server has the first part
			h.killAtMoment(kind, nil, moment{text: midCommit, also: midMessage, before: true}, moment{text: "PUB chaos.out.", before: true})
		}
	case strips:
		h.killAtMoment(kind, func() { h.trimInput(js) }, moment{text: "PUB $O.CHAOS-SNAP.M.", before: true, skip: rng.IntN(3)})
	case plucks:
		h.killAtMoment(kind, nil, moment{text: "PUB $JS.API.STREAM.MSG.DELETE.CHAOS-ROWS", skip: rng.IntN(8)})
	}
}
