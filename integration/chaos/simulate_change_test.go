//go:build simulation && chaos && linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/registry"
)

const (
	resizing   = "resize"
	resizeEnds = 5 * time.Minute // virtual time for a resize with its kills
)

// drawChanges draws changes of the job by its operator.
func (s *scenario) drawChanges(rng *rand.Rand) {
	if rng.Float64() < .3 {
		for range 1 + rng.IntN(4) {
			s.Harms = append(s.Harms, harm{Kind: promotion, Share: promotedUntil * rng.Float64()})
		}
		return
	}
	if rng.Float64() < .35 {
		for i := range 1 + rng.IntN(2) {
			s.Harms = append(s.Harms, harm{Kind: resizing, Share: .1 + .4*float64(i) + .3*rng.Float64()})
		}
	}
}

// publishModels stores the readouts of the model in the job's registry.
func (h *history) publishModels(ctx context.Context, js jetstream.JetStream) error {
	if h.scenario.countHarms(promotion) == 0 && h.learner == nil {
		return nil
	}
	for i := range h.truth.model.Readouts {
		m := *h.truth.model
		m.Readouts = m.Readouts[i : i+1]
		err := retryRequest(ctx, func(ctx context.Context) error { // until the first worker has created the job
			models, err := registry.Open(ctx, js, job)
			if err != nil {
				return err
			}
			e, _, err := models.Publish(ctx, &m, "chaos.safetensors", "", registry.Lineage{})
			if err == nil {
				h.truth.readouts.names = append(h.truth.readouts.names, e.Fingerprint)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("chaos: publishing a readout: %w", err)
		}
	}
	return nil
}

// promoteReadout promotes a readout, or the readout before, from the console of an operator.
func (h *history) promoteReadout(pick uint32) {
	rng := rand.New(rand.NewPCG(h.seed, uint64(pick)))
	nc, err := h.world.dial("operator")
	if err != nil {
		return // the server is down: the operator gives up
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), promotedWithin)
	defer cancel()
	for choice := rng.IntN(jobReadouts); ; choice++ {
		o := operate.PromoteOptions{Now: rng.IntN(3) == 0, Who: "chaos"}
		if which := choice % jobReadouts; which > 0 {
			o.Readout = h.truth.readouts.names[which]
		}
		p, err := operate.Promote(ctx, js, job, o)
		h.world.log.Info("FAULT: promotion", "readout", o.Readout, "number", p.Number, "err", err)
		if err == nil {
			h.world.count(promotion)
			return
		}
		if ctx.Err() != nil || choice > 2*jobReadouts {
			return
		}
	}
}

// resizeJob kills all workers, changes the number of partitions with a command that is
// killed several times, and lets new workers start.
func (h *history) resizeJob(pick uint32, js jetstream.JetStream) {
	w, rng := h.world, rand.New(rand.NewPCG(h.seed, uint64(pick)))
	to := 1 + rng.IntN(6)
	w.mu.Lock()
	if to == h.job.Config.Partitions || w.workers == nil {
		w.mu.Unlock()
		return
	}
	seats := w.workers
	w.workers = nil
	w.mu.Unlock()
	for i, s := range seats {
		if i == 0 && rng.IntN(2) == 0 {
			d := 2*lease + time.Duration(rng.IntN(10_000))*time.Millisecond
			h.faults.Go(func() { s.worker.resumeLate(d) })
			continue
		}
		s.worker.cable.end()
	}
	limit := time.Now().Add(resizeEnds)
	for kills := 0; ; kills++ {
		h.truth.resized = true
		ended, kill := h.startResize(to, js, rng)
		var dies <-chan time.Time
		if kills < 3 && rng.IntN(3) > 0 {
			dies = time.After(time.Duration(1+rng.IntN(400)) * time.Millisecond)
		}
		select {
		case err := <-ended:
			if errors.Is(err, operate.ErrNotBegun) { // refused: the workers return
				w.setScale(len(seats), h.job)
				return
			}
			if err == nil {
				w.count(resizing)
				if err := h.addCount(context.Background(), js, to); err != nil {
					h.fail("%v", err)
				}
				h.job.Config.Partitions, h.job.Config.Shards = to, min(2, to)
				w.setScale(len(seats), h.job)
				return
			}
			if time.Now().After(limit) {
				h.fail("resize to %d did not end: %v", to, err)
				return
			}
			if err := h.undoAlteration(js, err); err != nil {
				h.fail("an altered snapshot is not restored: %v", err)
				return
			}
			time.Sleep(time.Second) // the server may be down: the operator repeats the command
		case <-dies:
			kill(rng.IntN(2) == 0)
			<-ended
			w.count("kill resize")
		}
	}
}

// resumeLate suspends a worker for longer than its lease, as a process that is stopped
// during the whole resize. Later the worker finds records of another generation.
func (v *simulated) resumeLate(d time.Duration) {
	v.cable.hold(d, toServer, toWorker)
	time.Sleep(d + 3*lease)
	v.stop()
	<-v.done
}

// startResize runs a resize as a separate process does: kill cuts the connections of the
// resize for good, or interrupts the resize like Ctrl-C.
func (h *history) startResize(to int, js jetstream.JetStream, rng *rand.Rand) (ended <-chan error, kill func(gently bool)) {
	w := h.world
	w.mu.Lock()
	c := w.newCable("resize")
	if rng.IntN(2) == 0 { // messages are stored between two of its requests
		c.lag = time.Duration(1+rng.IntN(100)) * time.Millisecond
	}
	w.mu.Unlock()
	h.armAlteration(c, js)
	ctx, cancel := context.WithCancel(context.Background())
	h.interruptResize(c, cancel)
	job := h.job
	job.Log = w.log.With("worker", "resize")
	var conns []*nats.Conn
	job.Dial = func(_ context.Context, name string) (*nats.Conn, error) {
		nc, err := nats.Connect("", append(natsclient.LongLived(name, job.Log), nats.InProcessServer(c))...)
		if err == nil {
			conns = append(conns, nc)
		}
		return nc, err
	}
	job.NewEngine = newEngine
	done := make(chan error, 1)
	w.tasks.Go(func() {
		_, err := operate.Resize(ctx, &job, operate.ResizeOptions{To: to})
		cancel()
		for _, nc := range conns {
			nc.Close()
		}
		done <- err
	})
	return done, func(gently bool) {
		if !gently {
			c.end()
		}
		cancel()
	}
}
