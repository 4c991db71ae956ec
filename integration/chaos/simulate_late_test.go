//go:build simulation && chaos && linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	stage "github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Kinds of events in the input at a moment that a defect needs.
const (
	lateEvents    = "late end events"            // keys have sent messages since
	latePromotion = "late promotion"             // another worker has published the next
	foreign       = "promotions of another job"  // with the same input
	eventHeader   = "\r\n" + headerKind + ": "   // followed by the kind
	overtaken     = 2*lease + 6*time.Second      // another worker has the partition and has published
	eventWithin   = time.Second + promotedWithin // of the promotion
	foreignNumber = 1 << 20                      // higher than those of the job
)

// drawLate draws late and foreign events, after all other draws.
func (s *scenario) drawLate(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1<<50))
	if s.May.isLenient() {
		return
	}
	if s.Idle > 0 {
		for i := range 3 {
			s.Harms = append(s.Harms, harm{Kind: lateEvents, Share: .1 + .3*float64(i) + .2*rng.Float64()})
		}
	}
	if s.Classes == 0 && rng.Float64() < .12 {
		s.calm()
		s.Harms = []harm{{Kind: promotion}, {Kind: latePromotion, Share: .1 + .3*rng.Float64()}}
	}
	if s.countHarms(promotion) > 0 && rng.Float64() < .3 {
		s.Harms = append(s.Harms, harm{Kind: foreign, Share: .1 + .5*rng.Float64()})
	}
}

// delayEvents delays the next event of each worker.
func (w *world) delayEvents(kind string, d time.Duration, reached func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.workers {
		s.worker.cable.arm(&moment{text: eventHeader + kind, before: true, spares: true, cut: func([]byte) {
			reached()
			time.Sleep(d)
		}})
	}
}

// delayEnds delays the end events of silent streams.
func (h *history) delayEnds(pick uint32) {
	rng := rand.New(rand.NewPCG(h.seed, uint64(pick)))
	h.world.delayEvents("idle", time.Duration(200+rng.IntN(2800))*time.Millisecond, func() { h.world.count(lateEvents) })
}

// promoteLate promotes a readout, and another one while the event about the first is on
// the way. Another worker takes the partitions over and publishes the second event first.
func (h *history) promoteLate(pick uint32) {
	w, reached := h.world, make(chan bool, 16)
	w.delayEvents(promoteKind, overtaken, func() {
		select {
		case reached <- true:
		default:
		}
	})
	h.promoteReadout(pick)
	select {
	case <-reached:
	case <-time.After(eventWithin):
		return
	}
	w.mu.Lock()
	n := len(w.workers)
	w.mu.Unlock()
	if n == 0 {
		return // a resize
	}
	w.setScale(n+1, h.job)
	h.promoteReadout(pick + 1)
	w.count(latePromotion)
	time.Sleep(overtaken + eventWithin) // until the delayed event of each worker arrives
}

// publishForeign publishes promotions of another job into the input of all partitions.
func (h *history) publishForeign(js jetstream.JetStream) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	pattern, err := stage.ParsePattern(subjectPrefix + "*")
	if err != nil {
		return err
	}
	n := h.job.Config.Partitions
	for p := range n {
		data, err := json.Marshal(stage.PromoteEvent{Job: "other", Begun: "2000-01-01T00:00:00Z", Partition: p, Promotion: stage.Promotion{Number: foreignNumber, Readout: h.truth.readouts.names[1], Now: true}})
		if err != nil {
			return err
		}
		m := &nats.Msg{Subject: pattern.Subject(pattern.IdleKey(p, n)), Header: nats.Header{headerKind: {promoteKind}}, Data: data}
		if _, err := js.PublishMsg(ctx, m); err != nil {
			return fmt.Errorf("promotion of another job: %w", err)
		}
	}
	return nil
}
