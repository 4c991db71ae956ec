//go:build simulation && chaos && linux

package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Kinds of damage to one NATS stream, at a moment that a defect needs.
const (
	returns = "return of the output" // to an earlier moment, under its workers
	forks   = "fork of the output"   // the same, and another worker reaches the number of a worker that waits
	loses   = "loss of the output"   // it is deleted, or empty, in part with the states
	regrows = "another input"        // with more messages, while the readers wait
	clears  = "purge of unread input"
	pauses  = "purge between two workers" // the loss is read twice

	goesBack = "return of the input between two workers" // with more messages than before
)

// drawReturn draws such damage instead of the other work on the stores, after all other
// draws.
func (s *scenario) drawReturn(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1<<42))
	if s.May.isLenient() || s.Classes > 0 || rng.Float64() > .2 {
		return
	}
	kind := []string{returns, forks, loses, regrows, clears}[rng.IntN(5)]
	s.allowDamage(orStopped)
	switch at := .3 + .3*rng.Float64(); kind {
	case forks:
		s.Partitions = 1 // its numbers are those of the NATS stream
		s.calm()
		fallthrough
	case returns:
		s.Harms = []harm{{Kind: "backup", Share: .2 * (.5 + rng.Float64()/2)}, {Kind: kind, Share: at}}
	case loses:
		s.Harms = []harm{{Kind: kind, Share: at}}
	case regrows, clears:
		s.allowDamage(flaggedOrStopped)
		s.calm()
		s.Traffic.Unnumbered, s.Traffic.Repeat = true, 0 // numbers would show the loss
		s.Harms = []harm{{Kind: kind, Share: at}}
	}
}

// allowDamage replaces the traffic: every message of a key is sent, in order.
func (s *scenario) allowDamage(m may) {
	t := steady
	t.Keys, t.Messages, t.Rows, t.Gateways = s.Traffic.Keys, s.Traffic.Messages, s.Traffic.Rows, s.Traffic.Gateways
	s.Policy = "marked" // a lost sample shifts all later sequences of the other policies
	s.Traffic, s.Harms, s.May, s.Loses, s.SyncAlways, s.Idle = t, nil, m, m.Flag, false, 0
}

// calm removes the other faults.
func (s *scenario) calm() {
	s.Workers = s.Workers[:1]
	s.Kills, s.Zombies, s.Splits, s.OneWay, s.Cuts, s.Slow, s.Restarts, s.ServerKills = 0, 0, 0, 0, 0, 0, 0, 0
}

// damageOne lets such damage happen.
func (h *history) damageOne(ctx context.Context, kind string, js jetstream.JetStream, rng *rand.Rand) error {
	down := time.Duration(rng.IntN(1500)) * time.Millisecond
	switch kind {
	case returns:
		return h.returnOutput(down, rng)
	case reverts:
		return h.changeStreams(rewinds, down, []string{rowStream}, rng)
	case forgets:
		return h.forgetRecord(ctx, js, rng)
	case forks:
		return h.forkOutput(ctx, js, rng)
	case alters, removes:
		return h.alterStopped(ctx, kind, js, rng)
	case loses:
		return h.loseOutput(ctx, js, down, rng)
	case pauses, goesBack:
		return h.changeBetween(ctx, kind, js, rng)
	case regrows:
		return h.regrowInput(ctx, js, rng)
	default:
		return h.clearUnread(ctx, js, rng)
	}
}

// changeStreams restarts the server with changed folders of NATS streams.
func (h *history) changeStreams(kind string, down time.Duration, streams []string, rng *rand.Rand) error {
	w := h.world
	return w.restartServer(down, kind, func(dir string) error {
		return harmStore(kind, filepath.Join(dir, "jetstream", "$G", "streams"), filepath.Join(w.dir, "backup", "jetstream", "$G", "streams"), streams, rng)
	})
}

// returnOutput replaces the output by its earlier copy; all other NATS streams stay.
func (h *history) returnOutput(down time.Duration, rng *rand.Rand) error {
	return h.changeStreams(rewinds, down, []string{outputStream}, rng)
}

// loseOutput deletes or empties the output. The harness reads all predictions before the
// loss, as consumers do: no later output may repeat a prediction.
func (h *history) loseOutput(ctx context.Context, js jetstream.JetStream, down time.Duration, rng *rand.Rand) error {
	h.told = nil // of a damage that did not happen
	_, err := readOn(ctx, js, outputStream, 0, true, func(s stored) error {
		s.data, s.tokens = bytes.Clone(s.data), slices.Clone(s.tokens)
		h.told = append(h.told, s)
		return nil
	})
	if err != nil {
		return err
	}
	switch rng.IntN(3) {
	case 0:
		return retryRequest(ctx, func(ctx context.Context) error { return js.DeleteStream(ctx, outputStream) })
	case 1:
		return h.changeStreams(empties, down, []string{outputStream}, rng)
	default:
		return h.changeStreams(empties, down, []string{outputStream, snapStream, rowStream}, rng)
	}
}

// checkTold checks the predictions that were read before the output was lost.
func (h *history) checkTold() error {
	for _, s := range h.told {
		if err := h.audit.checkMessage(s); err != nil {
			return err
		}
	}
	return nil
}

// holdAll stops the data of the present workers until release is called.
func (w *world) holdAll() (release func()) {
	w.mu.Lock()
	var cables []*cable
	for _, s := range w.workers {
		cables = append(cables, s.worker.cable)
	}
	w.mu.Unlock()
	return holdUntil(cables...)
}

// holdUntil stops the data of cables until release is called.
func holdUntil(cables ...*cable) (release func()) {
	const step = 50 * time.Millisecond
	ended, done := make(chan bool), make(chan bool)
	hold := func(d time.Duration) {
		for _, c := range cables {
			c.hold(d, toServer, toWorker)
		}
	}
	hold(2 * step)
	go func() {
		defer close(done)
		for {
			select {
			case <-ended:
				hold(0)
				return
			case <-time.After(step):
				hold(2 * step)
			}
		}
	}()
	return func() { close(ended); <-done }
}

// forkWithin is the time for a new worker to claim and to reach the number.
const forkWithin = 90 * time.Second

// forkOutput replaces the output by its earlier copy while its worker waits. A new worker
// makes the lost predictions again. When the partition's last message has the number of
// the last message that the old worker knows, the new worker waits, and the old one
// continues.
func (h *history) forkOutput(ctx context.Context, js jetstream.JetStream, rng *rand.Rand) error {
	w, ctx := h.world, context.WithoutCancel(ctx)
	ctx, cancel := context.WithTimeout(ctx, 2*forkWithin)
	defer cancel()
	w.mu.Lock()
	for _, s := range w.workers {
		s.worker.cable.hold(2*time.Second, toServer)
	}
	before, seats := len(w.all), len(w.workers)
	w.mu.Unlock()
	time.Sleep(time.Second) // the answers arrive
	release := w.holdAll()
	released := false
	defer func() {
		if !released {
			release()
		}
	}()
	end, err := lastNumber(ctx, js)
	if err != nil {
		return err
	}
	if err := h.returnOutput(0, rng); err != nil {
		return err
	}
	if now, err := lastNumber(ctx, js); err != nil || now >= end {
		return cmp.Or(err, fmt.Errorf("the output went from message %d to %d", end, now))
	}
	w.setScale(seats+1, h.job)
	w.mu.Lock()
	fresh := w.all[before].cable
	w.mu.Unlock()
	fresh.setLag(20 * time.Millisecond) // several requests are needed between two commits
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		now, err := lastNumber(ctx, js)
		if err == nil && now == end {
			break
		}
		if err == nil && now > end || time.Since(begin) > forkWithin {
			return cmp.Or(err, fmt.Errorf("the output went to message %d, beyond %d", now, end))
		}
	}
	pause := holdUntil(fresh)
	release()
	released = true
	time.Sleep(2 * lease)
	pause()
	return nil
}

// lastNumber returns the number of the last message of partition 0.
func lastNumber(ctx context.Context, js jetstream.JetStream) (uint64, error) {
	m, err := lastRecord(ctx, js, 0)
	if err != nil {
		return 0, err
	}
	return m.Sequence, nil
}

// requireRead returns an error if a partition has no prediction from the input after a message.
// A loss of unread messages without numbers is not detectable.
func (h *history) requireRead(ctx context.Context, js jetstream.JetStream, after uint64) error {
	s, err := js.Stream(ctx, outputStream)
	if err != nil {
		return err
	}
	for p := range h.partitions() {
		m, err := s.GetLastMsgForSubject(ctx, fmt.Sprintf("%s.out.%d", job, p))
		if err != nil {
			return err
		}
		if in, err := strconv.ParseUint(m.Header.Get(headerInSeq), 10, 64); err != nil || in <= after {
			return fmt.Errorf("partition %d has not read beyond message %d", p, after)
		}
	}
	return nil
}

// holdReaders stops the data of the workers until release is called, after each partition
// has read input. last is the number of the last input message.
func (h *history) holdReaders(ctx context.Context, js jetstream.JetStream) (last uint64, release func(), err error) {
	if err := h.requireRead(ctx, js, 0); err != nil {
		return 0, nil, err
	}
	release = h.world.holdAll()
	if last, err = lastSeq(ctx, js, inputStream); err != nil {
		release()
		return 0, nil, err
	}
	return last, release, nil
}

// regrowInput deletes the input and creates another input while the workers wait. The
// workers continue when the new input has more messages than the old input.
func (h *history) regrowInput(ctx context.Context, js jetstream.JetStream, rng *rand.Rand) error {
	last, release, err := h.holdReaders(ctx, js)
	if err != nil {
		return err
	}
	defer release()
	if err := recreateInput(ctx, js, time.Duration(rng.IntN(1000))*time.Millisecond); err != nil {
		return err
	}
	h.producers.hurried.Store(true)
	return h.awaitInput(ctx, js, last+1+rng.Uint64N(10))
}

// clearUnread purges input that the readers, which wait, have not read.
func (h *history) clearUnread(ctx context.Context, js jetstream.JetStream, rng *rand.Rand) error {
	last, release, err := h.holdReaders(ctx, js)
	if err != nil {
		return err
	}
	defer release()
	most := last + 5 + rng.Uint64N(20)
	if err := h.awaitInput(ctx, js, most); err != nil {
		return err
	}
	s, err := js.Stream(ctx, inputStream)
	if err != nil {
		return err
	}
	return s.Purge(ctx, jetstream.WithPurgeSequence(most-rng.Uint64N(5)))
}

// changeBetween stops the workers, which store their states, and changes the input before
// the next workers start. After a purge, the next workers are killed when a record names the
// loss.
func (h *history) changeBetween(ctx context.Context, kind string, js jetstream.JetStream, rng *rand.Rand) error {
	if err := h.requireRead(ctx, js, h.kept); err != nil {
		return err
	}
	w := h.world
	w.mu.Lock()
	old := slices.Clone(w.workers)
	w.mu.Unlock()
	w.setScale(0, h.job)
	defer w.setScale(len(old), h.job)
	for _, s := range old {
		<-s.worker.done
	}
	last, err := lastSeq(ctx, js, inputStream)
	if err != nil {
		return err
	}
	if kind == goesBack {
		if err := h.changeStreams(rewinds, 0, []string{inputStream}, rng); err != nil {
			return err
		}
	}
	h.producers.hurried.Store(true)
	most := last + 3 + rng.Uint64N(5)
	if err := h.awaitInput(ctx, js, most); err != nil || kind == goesBack {
		return err
	}
	s, err := js.Stream(ctx, inputStream)
	if err != nil {
		return err
	}
	if err := s.Purge(ctx, jetstream.WithPurgeSequence(most-rng.Uint64N(2))); err != nil {
		return err
	}
	w.setScale(len(old), h.job)
	return h.killAfterLoss(ctx, js)
}

// killAfterLoss kills the workers when a record names lost input.
func (h *history) killAfterLoss(ctx context.Context, js jetstream.JetStream) error {
	out, err := js.Stream(ctx, outputStream)
	for ; err == nil; time.Sleep(5 * time.Millisecond) {
		for p := range h.partitions() {
			m, wrong := out.GetLastMsgForSubject(ctx, fmt.Sprintf("%s.out.%d", job, p))
			if err = wrong; err == nil && m.Header.Get("Eusn-Lost-Before") != "" {
				h.killAll()
				return nil
			}
		}
	}
	return err
}

// killAll kills all workers; new workers start later.
func (h *history) killAll() {
	w := h.world
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.workers {
		v := s.worker
		v.away = true
		h.faults.Go(func() { v.cable.end(); time.Sleep(restartWait); w.fillSeat(s, v, h.job) })
	}
}

// awaitInput waits until the input has a message with a number.
func (h *history) awaitInput(ctx context.Context, js jetstream.JetStream, seq uint64) error {
	for ; ; time.Sleep(10 * time.Millisecond) {
		if last, err := lastSeq(ctx, js, inputStream); err != nil || last >= seq {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}
