package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// failing is a real engine, lost after a number of calls together with all other
// engines of the device.
type failing struct {
	reservoir.Engine
	left *atomic.Int64
}

var errNoDevice = errors.New("no device left")

var errDevice = fmt.Errorf("device fell off the bus: %w", reservoir.ErrLost)

func (e failing) isLost() bool { return e.left.Load() < 0 }

func (e failing) Advance(inputs []float32, runs []reservoir.Run, scores []float32) error {
	if e.left.Add(-1) < 0 {
		return errDevice
	}
	return e.Engine.Advance(inputs, runs, scores)
}

func (e failing) ReadState(slot int32, row []uint32) error {
	if e.isLost() {
		return errDevice
	}
	return e.Engine.ReadState(slot, row)
}

// A stage with engines lost during work continues with other engines: every prediction
// equals the prediction of a run without the loss, once.
func TestFallback(t *testing.T) {
	t.Parallel()
	streams := pipelinetest.Recordings(20, 120)
	packets, sent := pipelinetest.Mixed(streams, 21)
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked, Early: 5})
	want := direct(t, m, streams, sent)
	for _, calls := range []int64{0, 1, 40} {
		t.Run(fmt.Sprint(calls), func(t *testing.T) {
			t.Parallel()
			b := newRig(t)
			book := &pipelinetest.LogBook{}
			b.log = book.Logger()
			c := quickConfig("lost", 4)
			c.Shards, c.RowBudget = 2, 10
			var left atomic.Int64
			left.Store(calls)
			var readies atomic.Int64
			r := &running{done: make(chan error, 1)}
			ready := make(chan struct{})
			s := &pipeline.Worker{
				Job: pipeline.Job{
					Config: c, Model: m, Log: b.log,
					Dial: func(ctx context.Context, name string) (*nats.Conn, error) { return b.dialServer(ctx, name) },
					NewEngine: func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
						e, err := cpu.New(net, slots, cpu.Options{Kind: cpu.Generic})
						return failing{e, &left}, err
					},
				},
				Counters: &r.counters,
				Fallback: pipelinetest.Generic,
				Ready: func() {
					if readies.Add(1) == 1 {
						close(ready)
					}
				},
			}
			ctx, cancel := context.WithCancel(t.Context())
			r.cancel = cancel
			go func() { r.done <- s.Run(ctx) }()
			<-ready
			b.publishPackets(packets)
			got := b.awaitPredictions("lost", count(want))
			r.stopStage(t)
			same(t, clean(got, 0), want)
			if n := book.Lines("engine lost"); n != 1 {
				t.Errorf("%d lines say that an engine was lost, want 1", n)
			}
			if n := readies.Load(); n != 1 {
				t.Errorf("Ready was called %d times, want once", n)
			}
		})
	}
}

// Losing an engine without a fallback, or the fallback too, ends the run.
func TestFallbackLost(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	for name, fallback := range map[string]bool{"none": false, "also lost": true} {
		b := newRig(t)
		var left atomic.Int64
		lost := func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
			e, err := cpu.New(net, slots, cpu.Options{Kind: cpu.Generic})
			return failing{e, &left}, err
		}
		s := &pipeline.Worker{Job: pipeline.Job{Config: quickConfig("gone", 1), Model: m, Dial: b.dialServer, NewEngine: lost}}
		if fallback { // later engines are lost, too, until none are left
			engines := 2
			s.Fallback = func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
				if engines--; engines < 0 {
					return nil, errNoDevice
				}
				return lost(net, slots)
			}
		}
		ready := make(chan struct{})
		s.Ready = func() { close(ready) }
		done := make(chan error, 1)
		go func() { done <- s.Run(t.Context()) }()
		var err error
		select {
		case <-ready:
			packets, _ := pipelinetest.Mixed(pipelinetest.Recordings(3, 20), 2)
			b.publishPackets(packets)
			err = (&running{done: done}).waitForEnd(t)
		case err = <-done: // a call without runs came before
		}
		want := reservoir.ErrLost
		if fallback {
			want = errNoDevice
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: run ended with %v, want %v", name, err, want)
		}
	}
}
