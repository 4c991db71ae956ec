//go:build simulation && chaos && linux

package main

import (
	"bytes"
	"context"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
)

// moment is a point of a worker's protocol at which a fault kills the worker: before or
// after the server gets a message with this text.
type moment struct {
	text   string
	before bool
	skip   int                // times that the text comes before
	spares bool               // the participant lives; its data waits until cut returns
	cut    func(piece []byte) // called once
}

// moments are the texts: an entry of a snapshot, a piece of a snapshot, a stored row, a
// commit, a dead letter. Between two of these messages a state is on the server in part.
var moments = []string{
	"PUB $O.CHAOS-SNAP.M.", "PUB $O.CHAOS-SNAP.C.", "PUB chaos.rows.", "PUB chaos.out.", "PUB chaos.dlq.",
}

// momentWithin is the longest wait for a moment.
const momentWithin = 8 * time.Second

// awaitMoment kills a worker at a moment that pick chooses, or after a while.
func (v *simulated) awaitMoment(pick uint32) {
	reached := make(chan struct{})
	v.cable.arm(&moment{text: moments[int(pick)%len(moments)], before: pick>>8%2 == 0, cut: func([]byte) { close(reached) }})
	select {
	case <-reached:
	case <-v.done:
	case <-time.After(momentWithin):
	}
	v.cable.end()
}

func (c *cable) arm(m *moment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moment = m
}

// isMoment reports whether the moment of a death is reached with a piece of data, and ends the
// cable: nothing follows.
func (c *cable) isMoment(piece []byte, before bool) bool {
	c.mu.Lock()
	m := c.moment
	reached := m != nil && m.before == before && bytes.Contains(piece, []byte(m.text))
	if reached && m.skip > 0 {
		m.skip--
		reached = false
	}
	if reached {
		c.moment, c.ended = nil, c.ended || !m.spares
	}
	c.mu.Unlock()
	if reached {
		m.cut(piece)
	}
	return reached && !m.spares
}

// trims is the removal of unneeded input by an operator: then states cannot be rebuilt from
// the input, only from snapshots.
const trims = "trim"

// drawTrims draws the work of an operator, after all other draws. No history trims and
// loses power: also with synced writes, nats-server syncs only the deletion mark of the
// last message, not the removal of the old file. A loss of power brings all other
// messages back. The input then looks as if one message that each partition has read was
// deleted, and the partitions stop, as they should (seed 3097).
func (s *scenario) drawTrims(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1<<41))
	if s.May.isLenient() || s.losesPower() || rng.Float64() > .5 {
		return
	}
	for range 1 + rng.IntN(3) {
		s.Harms = append(s.Harms, harm{Kind: trims, Share: .1 + .7*rng.Float64()})
	}
	s.Kills = max(s.Kills, 2+rng.IntN(4)) // the next owners need the snapshots
}

// trimInput removes the input that the job does not need and that the truth has read.
func (h *history) trimInput(js jetstream.JetStream) {
	if h.recorder != nil {
		return // needs all input
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	next, err := readOn(ctx, js, inputStream, h.inputRead, false, h.readInput)
	if err != nil {
		h.fail("reading the input before a trim: %v", err)
		return
	}
	h.inputRead = next
	d, err := store.Trim{Job: job, Also: []store.Need{{Job: "harness", Partition: -1, Message: next + 1}}}.Run(ctx, js)
	h.world.log.Info("FAULT: "+trims, "begins", d.Begins, "removed", d.Removed, "err", err)
	if err == nil && d.Removed > 0 {
		h.world.count(trims)
	}
}
