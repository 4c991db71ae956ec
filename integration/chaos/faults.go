//go:build linux

package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// event is a planned fault.
type event struct {
	time time.Duration
	kind string
	pick uint32        // selects the victim
	d    time.Duration // duration
}

// Kinds of events.
const (
	killWorker   = "kill worker"
	stopWorker   = "stop worker"
	partitioning = "partition"
	cutWorker    = "cut worker"
	slowWorker   = "slow worker"
	endWorker    = "end worker"
	killServer   = "kill server"
	scaleTo      = "scale to"
	oneWayCut    = "one-way cut"
	harming      = "harm" // pick is the index in scenario.Harms
	fillDisk     = "full disk"
	jumpClock    = "clock jump" // of the wall clock
)

// schedule draws the times of a scenario's faults. The faults of each kind are
// distributed over the load, each at a random moment of its part. Faults with a delayed
// effect are in the first part.
func (s *scenario) schedule(seed uint64) []event {
	rng := rand.New(rand.NewPCG(seed, 1<<33))
	var all []event
	add := func(n int, kind string, upTo float64, shortest, longest time.Duration) {
		for i := range n {
			share := 0.03 + (upTo-0.03)*(float64(i)+rng.Float64())/float64(n)
			all = append(all, event{
				time: time.Duration(share * float64(s.Load)), kind: kind, pick: rng.Uint32(),
				d: shortest + time.Duration(rng.Int64N(int64(longest-shortest)+1)),
			})
		}
	}
	add(s.Kills, killWorker, 0.98, 0, 0)
	add(s.Zombies, stopWorker, 0.75, 4*time.Second, 6*time.Second)
	add(s.Splits, partitioning, 0.7, 6*time.Second, 8*time.Second) // a publish without an answer is abandoned after 5 s
	add(s.OneWay, oneWayCut, 0.7, 6*time.Second, 8*time.Second)
	add(s.Cuts, cutWorker, 0.9, 100*time.Millisecond, 3*time.Second)
	add(s.Slow, slowWorker, 0.9, time.Second, 4*time.Second)
	add(s.Restarts, endWorker, 0.9, 0, 0)
	add(s.ServerKills, killServer, 0.9, 100*time.Millisecond, 1600*time.Millisecond)
	for i, n := range s.Workers[1:] {
		all = append(all, event{time: s.Load * time.Duration(i+1) / time.Duration(len(s.Workers)), kind: scaleTo, pick: uint32(n)})
	}
	for i, h := range s.Harms {
		at := h.Share
		if h.Kind == promotion {
			at += promotedUntil * rng.Float64() / float64(s.countHarms(promotion))
		}
		all = append(all, event{time: time.Duration(at * float64(s.Load)), kind: harming, pick: uint32(i)})
	}
	add(s.Fills, fillDisk, 0.8, 500*time.Millisecond, 12*time.Second)
	add(s.Jumps, jumpClock, 0.8, 500*time.Millisecond, 12*time.Second)
	slices.SortStableFunc(all, func(a, b event) int { return int(a.time - b.time) })
	return all
}

// breakThings runs a schedule. It returns when the last fault has begun and every server
// has restarted.
func (r *run) breakThings(ctx context.Context, js jetstream.JetStream, events []event) error {
	begin := time.Now()
	var wg sync.WaitGroup
	var once sync.Once
	var failure error
	for _, worker := range []bool{true, false} {
		wg.Go(func() {
			for _, e := range events {
				if (e.kind != killServer && e.kind != harming) != worker {
					continue
				}
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Until(begin.Add(e.time))):
				}
				r.logEvent(begin, e)
				if err := r.applyEvent(ctx, js, e); err != nil {
					once.Do(func() { failure = err })
					return
				}
			}
		})
	}
	wg.Wait()
	return failure
}

func (r *run) applyEvent(ctx context.Context, js jetstream.JetStream, e event) error {
	f := r.fleet
	switch e.kind {
	case killWorker:
		f.killWorker(e.pick)
	case stopWorker:
		f.stopWorker(e.pick, e.d)
	case partitioning:
		f.partitionWorker(e.pick, e.d)
	case cutWorker:
		f.cutWorker(e.pick, e.d)
	case oneWayCut:
		f.holdOneWay(e.pick, e.d)
	case slowWorker:
		f.slowWorker(e.pick, e.d)
	case endWorker:
		f.restartWorker(e.pick)
	case scaleTo:
		f.setScale(int(e.pick))
		f.faults.ScaleSteps++
	case killServer:
		return r.killServer(ctx, js, e)
	case harming:
		return r.applyHarm(ctx, js, r.scenario.Harms[e.pick])
	}
	return nil
}

// killServer kills a server; in a cluster, usually a leader.
func (r *run) killServer(ctx context.Context, js jetstream.JetStream, e event) error {
	n := len(r.cluster.nodes)
	i, leads := int(e.pick)%n, n == 1
	if stream := []string{inputStream, outputStream, ""}[e.pick>>8%3]; n > 1 && stream != "" {
		if l := r.cluster.leaderOf(ctx, js, stream); l >= 0 {
			i, leads = l, true
		}
	}
	if err := r.cluster.crashNode(ctx, js, i, e.d); err != nil {
		return err
	}
	r.fleet.faults.ServerKills++
	if leads {
		r.fleet.faults.LeaderKills++
	}
	return nil
}
