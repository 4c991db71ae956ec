//go:build simulation && chaos && linux

package main

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"regexp"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
)

// moment is a point of a worker's protocol at which a fault kills the worker: before or
// after the server gets a message with this text.
type moment struct {
	text   string
	before bool
	also   *regexp.Regexp     // nil, or matches the message, too
	skip   int                // times that the text comes before
	spares bool               // the participant lives; its data waits until cut returns
	cut    func(piece []byte) // called once
}

// moments are the texts: an entry of a snapshot, a piece of a snapshot, a stored row, a
// commit, a dead letter, the removal of a row. Between two of these messages a state is on
// the server in part.
var moments = []string{
	"PUB $O.CHAOS-SNAP.M.", "PUB $O.CHAOS-SNAP.C.", "PUB chaos.rows.", "PUB chaos.out.", "PUB chaos.dlq.",
	"PUB $JS.API.STREAM.MSG.DELETE.CHAOS-ROWS",
}

// midCommit is in the header of each part of a split commit except the last.
const midCommit = "Eusn-Rests-In-Seq"

// momentWithin is the longest wait for a moment.
const momentWithin = 8 * time.Second

// ownMoments are the moments that a scenario needs most.
func (s *scenario) ownMoments() []string {
	switch {
	case s.Classes > 0:
		return []string{midCommit}
	case s.countHarms(trims) > 0:
		return []string{"PUB $O.CHAOS-SNAP.M.", "PUB $JS.API.STREAM.MSG.DELETE.CHAOS-ROWS"}
	}
	return nil
}

// awaitMoment kills a worker at a moment that pick chooses, or after a while. own are the
// most frequent texts.
func (v *simulated) awaitMoment(pick uint32, own []string) {
	reached := make(chan struct{})
	text := moments[int(pick)%len(moments)]
	if len(own) > 0 && pick>>9%2 == 0 {
		text = own[int(pick>>10)%len(own)]
	}
	v.cable.arm(&moment{text: text, before: pick>>8%2 == 0, cut: func([]byte) { close(reached) }})
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
	reached := m != nil && m.before == before && bytes.Contains(piece, []byte(m.text)) && (m.also == nil || m.also.Match(piece))
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

// drawStates draws more of the moments at which only a part of the data has a state: rows
// and snapshots that are deleted while the input before them is gone, and messages without
// predictions between the parts of split commits.
func (s *scenario) drawStates(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1<<51))
	switch {
	case !s.May.isLenient() && s.Classes == 0 && rng.Float64() < .08:
		kind := []string{pauses, goesBack}[rng.IntN(2)]
		s.allowDamage(may{Flag: true, Stop: kind == goesBack})
		s.calm()
		s.Partitions, s.Traffic.Unnumbered, s.Traffic.Repeat = 1, true, 0 // the partition has read input
		s.Harms = []harm{{Kind: kind, Share: .3 + .3*rng.Float64()}}
		if kind == goesBack {
			s.Harms = append([]harm{{Kind: "backup", Share: .1 + .15*rng.Float64()}}, s.Harms...)
		}
	case s.Classes > 0:
		s.Traffic.Repeat, s.Traffic.Late, s.Traffic.LateBy, s.Traffic.Damaged = .3, .2, 2, .4
		s.Snapshots, s.Partitions = 1+rng.IntN(4), 1+rng.IntN(2)
	case !s.May.isLenient() && rng.Float64() < .06: // a worker with all partitions loses data on the way
		s.calm()
		s.Workers, s.Partitions, s.Cuts, s.Harms = []int{1}, 2+rng.IntN(5), 3+rng.IntN(3), nil
		s.Traffic.Messages *= 2
	case s.May.isLenient() || s.losesPower():
	case rng.IntN(7) == 0: // more streams than slots, and only snapshots have the states
		if s.Slots > 0 || rng.IntN(2) == 0 {
			s.Slots, s.Traffic.Keys = 2+rng.IntN(3), 8+rng.IntN(5)
		}
		for range 3 {
			s.Harms = append(s.Harms, harm{Kind: trims, Share: .1 + .7*rng.Float64()})
		}
		s.Kills, s.Snapshots, s.Lag = max(s.Kills, 4+rng.IntN(4)), 3+rng.IntN(8), time.Duration(10+rng.IntN(40))*time.Millisecond
	}
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
		if next > h.inputRead || !h.world.filled || !errors.Is(err, context.DeadlineExceeded) { // else the server waits for its restart
			h.fail("reading the input before a trim: %v", err)
		}
		return
	}
	h.inputRead = next
	d, err := store.Trim{Job: job, Also: []store.Need{{Job: "harness", Partition: -1, Message: next + 1}}}.Run(ctx, js)
	h.world.log.Info("FAULT: "+trims, "begins", d.Begins, "removed", d.Removed, "err", err)
	if d.Removed > 0 { // also without an answer, from a server whose disk is full
		h.world.count(trims)
	}
}
