//go:build simulation && chaos && linux

package main

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// rival is a worker of the job with another network, which the job must refuse.
const rival = "worker with another network"

// drawRivals draws such workers.
func (s *scenario) drawRivals(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1<<40))
	if s.May.isLenient() || rng.Float64() > .15 {
		return
	}
	s.Harms = append(s.Harms, harm{Kind: rival, Share: .2 + .6*rng.Float64()})
}

// runRival runs a worker with another network for a while. The comparison of the output
// shows that the worker changes nothing.
func (h *history) runRival(js jetstream.JetStream) {
	ctx, stop := context.WithTimeout(context.Background(), rivalWithin)
	defer stop()
	w := h.world
	out, err := js.Stream(ctx, outputStream)
	if err == nil {
		_, err = out.GetLastMsgForSubject(ctx, job+".out.job") // otherwise the job would be the rival's
	}
	if err != nil {
		return
	}
	m, err := drawModel(h.scenario.Policy, 4, 5, cmp.Or(h.scenario.Classes, 3))
	if err != nil {
		h.fail("the model of a rival: %v", err)
		return
	}
	w.mu.Lock()
	c, own := w.newCable("rival"), h.job
	w.mu.Unlock()
	own.Model, own.NewEngine = m, newEngine
	own.Log = slog.New(slog.NewTextHandler(w.sink, nil)).With("worker", "rival")
	var conns []*nats.Conn
	own.Dial = func(_ context.Context, name string) (*nats.Conn, error) {
		nc, err := nats.Connect("", append(natsclient.LongLived(name, own.Log), nats.InProcessServer(c))...)
		if err == nil {
			conns = append(conns, nc)
		}
		return nc, err
	}
	err = (&pipeline.Worker{Job: own}).Run(ctx)
	w.log.Info("FAULT: "+rival, "err", err)
	for _, nc := range conns {
		nc.Close()
	}
	c.end()
	w.count(rival)
}
