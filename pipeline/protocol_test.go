package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Killed repeatedly, between any two batches, with producers that repeat and reorder:
// every prediction equals the uninterrupted run's, bit for bit.
func TestCrashes(t *testing.T) {
	for name, policy := range map[string]reservoir.Policy{
		"marked": {Kind: reservoir.Marked, Early: 5},
		"window": {Kind: reservoir.Window, Length: 10, Hop: 2},

		"marked front end": {Kind: reservoir.Marked, Early: 5},
		"window front end": {Kind: reservoir.Window, Length: 10, Hop: 2},

		"window regimes": {Kind: reservoir.Window, Length: 10, Hop: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			streams := pipelinetest.Recordings(20, 120)
			packets, sent := pipelinetest.Mixed(streams, 21)
			m := pipelinetest.Timed(pipelinetest.Ranged(pipelinetest.Model(t, 3, policy)))
			if strings.HasSuffix(name, "front end") {
				m = pipelinetest.Fronted(m)
			}
			if strings.HasSuffix(name, "regimes") {
				m = pipelinetest.Regimed(m)
			}
			exp := direct(t, m, streams, sent)
			b := newRig(t)
			c := quickConfig("crash", 4)
			shuffled := pipelinetest.Disorder(packets, rand.New(rand.NewPCG(4, 2)))
			for i := 0; i < 5; i++ {
				c.Shards, c.RowBudget = 1+i%2, 5+20*i
				r := b.startStage(m, c)
				from, to := i*len(shuffled)/5, (i+1)*len(shuffled)/5
				b.publishPackets(shuffled[from:to])
				if i == 4 {
					got := b.awaitPredictions("crash", count(exp))
					r.stopStage(t)
					same(t, clean(got, outcome.FlagReordered), exp)
					return
				}
				time.Sleep(time.Duration(i) * 7 * time.Millisecond)
				r.crashStage(t)
				b.expireMembers("crash")
			}
		})
	}
}

// Two workers share a job, a third comes, the first is killed, another is
// stopped: partitions move, nothing is lost, doubled or changed.
func TestScaleOutAndIn(t *testing.T) {
	streams := pipelinetest.Recordings(24, 150)
	packets, sent := pipelinetest.Mixed(streams, 33)
	m := pipelinetest.Ranged(pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked}))
	exp := direct(t, m, streams, sent)
	b := newRig(t)
	c := quickConfig("scale", 8)
	part := func(i int) { b.publishPackets(packets[i*len(packets)/5 : (i+1)*len(packets)/5]) }
	w1 := b.startStage(m, c)
	part(0)
	w2 := b.startStage(m, c)
	part(1)
	w1.waitUntil(t, "half of the partitions", func(s pipeline.Stats) bool { return s.Owned == 4 })
	w2.waitUntil(t, "the other half", func(s pipeline.Stats) bool { return s.Owned == 4 })
	w3 := b.startStage(m, c)
	part(2)
	w1.crashStage(t)
	part(3)
	w2.stopStage(t)
	part(4)
	w3.waitUntil(t, "all partitions", func(s pipeline.Stats) bool { return s.Owned == 8 })
	got := b.awaitPredictions("scale", count(exp))
	w3.stopStage(t)
	same(t, got, exp)
	for p := range 8 {
		if _, r := b.lastRecord("scale", p); r.Kind != wire.KindReleased || r.Epoch < 2 {
			t.Errorf("partition %d ends with %+v, want a release after at least two claims", p, r)
		}
	}
}

// A worker overtaken while it holds a batch back cannot commit the batch; the other
// worker's predictions stay.
func TestZombieIsFenced(t *testing.T) {
	streams := pipelinetest.Recordings(6, 100)
	packets, sent := pipelinetest.Mixed(streams, 5)
	m := pipelinetest.Ranged(pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked}))
	exp := direct(t, m, streams, sent)
	b := newRig(t)
	c := quickConfig("zombie", 1)
	asleep, wake := make(chan struct{}), make(chan struct{})
	calls := 0
	z := b.startWith(m, c, func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		e, err := pipelinetest.Generic(net, slots)
		return &sleeper{Engine: e, before: func() {
			if calls++; calls == 5 {
				close(asleep)
				<-wake
			}
		}}, err
	})
	b.publishPackets(packets[:len(packets)/2])
	<-asleep
	_, before := b.lastRecord("zombie", 0)
	out, err := b.js.Stream(t.Context(), wire.OutputStream("zombie"))
	if err != nil {
		t.Fatal(err)
	}
	other := &store.Committer{JS: b.js, Stream: out, Job: "zombie", Worker: "other", Log: b.log, Retries: func() {}, Model: before.Identity}
	empty, err := wire.NoPredictions(codec.PredictionMeta{Labels: []string{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.ClaimPartition(t.Context(), empty, func(wire.Record) bool { return false }); err != nil {
		t.Fatal(err)
	}
	if other.Record.Epoch != before.Epoch+1 || other.Record.Position != before.Position {
		t.Errorf("claimed %+v after %+v", other.Record, before)
	}
	close(wake)
	b.publishPackets(packets[len(packets)/2:])
	z.waitUntil(t, "fencing", func(s pipeline.Stats) bool { return s.Fenced == 1 })
	got := b.awaitPredictions("zombie", count(exp)) // the worker has reclaimed the partition by then
	z.stopStage(t)
	same(t, got, exp)
	if _, r := b.lastRecord("zombie", 0); r.Epoch != before.Epoch+2 {
		t.Errorf("epoch %d, want %d", r.Epoch, before.Epoch+2)
	}
}

type sleeper struct {
	reservoir.Engine
	before func()
}

func (s *sleeper) Advance(x []float32, runs []reservoir.Run, scores []float32) error {
	s.before()
	return s.Engine.Advance(x, runs, scores)
}

// A stopped partition does not stop other partitions.
func TestOneStoppedOthersGoOn(t *testing.T) {
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := quickConfig("partly", 4)
	r := b.startStage(m, c)
	var packets []pipelinetest.Packet
	for i := range 16 {
		packets = append(packets, pipelinetest.One(fmt.Sprintf("k%d", i), 1, 2, 1, true))
	}
	b.publishPackets(packets)
	b.settleMessages(r, 16)
	r.stopStage(t)
	if _, err := b.js.PublishMsg(t.Context(), &nats.Msg{Subject: wire.OutputSubject("partly", 2), Data: []byte("?")}); err != nil {
		t.Fatal(err)
	}
	r = b.startStage(m, c)
	for i := range packets {
		packets[i].Seq = 2
	}
	b.publishPackets(packets)
	r.waitUntil(t, "a stopped partition", func(s pipeline.Stats) bool { return s.Stopped == 1 && s.Owned == 3 && s.Predictions > 4 })
	r.cancel()
	mentions(t, r.waitForEnd(t), "partly.out.2", "another program publishes there")
}
