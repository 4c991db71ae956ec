package service

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"
)

const interrupted = 130

// uniqueStates returns the reported states without repetitions.
func uniqueStates(reports []progress) (all []state) {
	for _, p := range reports {
		all = append(all, p.state)
	}
	return slices.Compact(all)
}

// A program that becomes ready and is stopped reports starting, running, stopping, and its exit
// code.
func TestSupervise(t *testing.T) {
	for _, c := range []struct {
		name     string
		says     bool // reports its readiness
		stop     bool
		patience time.Duration
		code     int // exit code of the program
		states   []state
		want     int
	}{
		{"stopped", true, true, time.Hour, 0, []state{starting, running, stopping}, 0},
		{"stopped as by Ctrl-C", true, true, time.Hour, interrupted, []state{starting, running, stopping}, 0},
		{"a failure while it stops", true, true, time.Hour, 1, []state{starting, running, stopping}, 1},
		{"a failure", true, false, time.Hour, 5, []state{starting, running}, 5},
		{"interrupted, and nobody asked", true, false, time.Hour, interrupted, []state{starting, running}, interrupted},
		{"a wrong configuration", false, false, time.Hour, 3, []state{starting}, 3},
		{"never ready", false, true, time.Millisecond, 0, []state{starting, running, stopping}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var reports []progress
			stop, runs := make(chan struct{}), make(chan struct{}, 1)
			tell := func(p progress) {
				reports = append(reports, p)
				if p.state != running && (p.checkpoint == 0 || p.hint < reportEvery) {
					t.Errorf("told %+v: the manager would take it for dead", p)
				}
				if p.state == running {
					runs <- struct{}{}
				}
			}
			code := supervise(t.Context(), stop, tell, c.patience, interrupted, func(ctx context.Context) int {
				if c.says {
					Notify(ctx, slog.New(slog.DiscardHandler), nil)
					Notify(ctx, slog.New(slog.DiscardHandler), nil) // a second report is harmless
				}
				if len(c.states) > 1 {
					<-runs
				}
				if c.stop {
					close(stop)
					<-ctx.Done()
				}
				return c.code
			})
			if code != c.want {
				t.Errorf("exit code %d, want %d", code, c.want)
			}
			if got := uniqueStates(reports); !slices.Equal(got, c.states) {
				t.Errorf("told %v, want %v", got, c.states)
			}
		})
	}
}

// Checkpoints grow while the service starts and stops.
func TestCheckpointsGrow(t *testing.T) {
	stop, grows := make(chan struct{}), make(chan state, 10)
	var last progress
	code := supervise(t.Context(), stop, func(p progress) {
		if p.state == last.state && p.checkpoint == last.checkpoint+1 {
			grows <- p.state
		}
		last = p
	}, time.Hour, interrupted, func(ctx context.Context) int {
		if s := <-grows; s != starting {
			t.Errorf("state %v grows, want starting", s)
		}
		close(stop)
		<-ctx.Done()
		for <-grows != stopping {
		}
		return 0
	})
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
}
