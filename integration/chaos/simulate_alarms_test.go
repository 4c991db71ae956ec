//go:build simulation && chaos && linux

package main

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/watch"
)

// keepers are two processes for the alarms of a job: one keeps them, the other stands by.
type keepers struct {
	both     []*guest
	events   int // in the log, at the end
	keeps    int // processes that began to keep the alarms
	standbys int // processes that stood by
}

// addAlarms adds a keeper of the alarms, and a standby.
func (h *history) addAlarms(*rand.Rand) error {
	rules, err := alarm.ParseRules(map[string]string{"one": alarmRule})
	if err != nil {
		return err
	}
	k := &keepers{}
	serve := func(l *life) error {
		nc, err := l.dial()
		if err != nil {
			return nil
		}
		defer nc.Close()
		return watch.Run(l.ctx, nc, watch.Options{
			Job: job, Rules: rules, Since: h.world.begin, Save: h.scenario.Load / 10, Who: "chaos", Log: l.log,
			Writes: func() { k.keeps++ }, StandsBy: func() { k.standbys++ },
		})
	}
	may := func(err error) bool { return !errors.Is(err, alarm.ErrMissing) && !errors.Is(err, watch.ErrDiffers) }
	for _, name := range []string{"alarms", "standby"} {
		k.both = append(k.both, h.newGuest(name, serve, may))
	}
	h.keepers = k
	return nil
}

// compareKeepers expects the events that the output calls for, each once and in order.
func (h *history) compareKeepers(ctx context.Context, js jetstream.JetStream) error {
	for _, g := range h.keepers.both {
		g.start()
	}
	got, want, err := h.awaitAlarms(ctx, js)
	if err != nil {
		return err
	}
	for _, g := range h.keepers.both {
		if err := g.end(); err != nil && !errors.Is(err, watch.ErrFenced) {
			h.fail("%s ended: %v", g.name, err)
		}
	}
	if got, err = alarmLog(ctx, js); err != nil {
		return err
	}
	h.keepers.events = len(got)
	h.judgeAlarms(got, want)
	return nil
}
