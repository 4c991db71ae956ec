package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// commonReader is the common reader of a stage.
func (r *running) commonReader() *owner.Common { return r.counters.Common() }

// waitForReads waits until the common consumer of a stage reads for the given number of
// partitions.
func (r *running) waitForReads(t testing.TB, partitions int) {
	t.Helper()
	n := -1
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if n = r.commonReader().CountReads(); n == partitions {
			return
		}
	}
	t.Fatalf("a common consumer reads for %d partitions, want %d", n, partitions)
}

// A worker with all partitions reads with a single consumer, from the start on and with
// a backlog. After another worker joins, each partition uses a separate consumer, and
// after the new worker leaves, all partitions share a consumer as before. Nothing is
// lost, duplicated or out of order.
func TestCommonReader(t *testing.T) {
	t.Parallel()
	b := newRig(t)
	b.apart = 50 * time.Millisecond
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	streams := pipelinetest.Recordings(30, 120)
	packets, sent := pipelinetest.Mixed(streams, 9)
	n := len(packets) / 5
	c := quickConfig("common", 6)
	c.Shards = 2
	b.startStage(m, c).stopStage(t) // the NATS streams exist afterwards
	b.publishPackets(packets[:n])
	first := b.startStage(m, c)
	first.waitForReads(t, c.Partitions)
	b.settleMessages(first, n)
	b.publishPackets(packets[n : 2*n])
	b.settleMessages(first, 2*n)
	first.waitForReads(t, c.Partitions)

	second := b.startStage(m, c)
	first.waitForReads(t, 0)
	b.publishPackets(packets[2*n : 3*n])
	second.stopStage(t)
	// A partition joins with a message received after the worker has noticed the
	// departure, at a time that depends on the machine: the messages are sent in small
	// groups, so that some remain.
	left := packets[3*n:]
	for ; len(left) > n && first.commonReader().CountReads() < c.Partitions; left = left[1:] {
		b.publishPackets(left[:1])
		for end := time.Now().Add(200 * time.Millisecond); first.commonReader().CountReads() == 0 && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(5 * time.Millisecond)
	}
	first.waitForReads(t, c.Partitions)
	b.publishPackets(left)
	same(t, b.awaitPredictions(c.Job, count(direct(t, m, streams, sent))), direct(t, m, streams, sent))
	first.stopStage(t)
	same(t, b.readPredictions(c.Job), direct(t, m, streams, sent))
}

// For any sequence of leaving and joining the common consumer, at any message, each
// message is used once and in order.
func TestCommonReaderComesAndGoes(t *testing.T) {
	t.Parallel()
	b := newRig(t)
	b.apart = time.Nanosecond
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	streams := pipelinetest.Recordings(40, 200)
	packets, sent := pipelinetest.Mixed(streams, 3)
	c := quickConfig("goes", 5)
	c.Shards = 2
	r := b.startStage(m, c)
	var joined atomic.Int64
	ended := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(ended)
		rng := rand.New(rand.NewPCG(1, 2))
		for common := r.commonReader(); ; {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(rng.IntN(4000)) * time.Microsecond):
			}
			if common.CountReads() > 0 {
				joined.Add(1)
				common.StopSharing()
			}
		}
	}()
	b.publishPackets(packets)
	b.settleMessages(r, len(packets))
	close(stop)
	<-ended
	r.stopStage(t)
	same(t, b.readPredictions(c.Job), direct(t, m, streams, sent))
	if joined.Load() < 10 {
		t.Errorf("partitions were together %d times: the test has lost its subject", joined.Load())
	}
}

// The client recreates a consumer that the server has lost: each partition checks for
// an unchanged input.
func TestCommonConsumerIsLost(t *testing.T) {
	t.Parallel()
	b := newRig(t)
	b.apart = 50 * time.Millisecond
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	streams := pipelinetest.Recordings(20, 60)
	packets, sent := pipelinetest.Mixed(streams, 5)
	n := len(packets) / 3
	c := quickConfig("remade", 4)
	r := b.startStage(m, c)
	b.publishPackets(packets[:n])
	b.settleMessages(r, n)
	r.waitForReads(t, c.Partitions)
	in, err := b.js.Stream(t.Context(), wire.InputStream(c.Job))
	if err != nil {
		t.Fatal(err)
	}
	for name := range in.ConsumerNames(t.Context()).Name() {
		if err := in.DeleteConsumer(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	b.publishPackets(packets[n : 2*n])
	b.settleMessages(r, 2*n)
	b.publishPackets(packets[2*n:])
	b.settleMessages(r, len(packets))
	if r.counters.Stats().Resets == 0 {
		t.Error("no consumer was made again: the test has lost its subject")
	}
	r.stopStage(t)
	same(t, b.readPredictions(c.Job), direct(t, m, streams, sent))
}

// A shard that accepts no messages delays no other shard: its partitions leave the
// common consumer, and lose nothing.
func TestStuckShardLeavesTheCommonReader(t *testing.T) {
	t.Parallel()
	b := newRig(t)
	b.apart = 50 * time.Millisecond
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	c := pipeline.Config{Job: "stuck", Partitions: 4, Shards: 2, Latency: -1}
	open := make(chan struct{})
	engines := 0
	r := b.startWith(m, c, func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		e, err := pipelinetest.Generic(net, slots)
		if engines++; engines == 1 { // of the partitions with even numbers
			return &gate{e, open}, err
		}
		return e, err
	})
	r.waitForReads(t, c.Partitions)
	keys := map[int]string{}
	for i := 0; len(keys) < c.Partitions; i++ {
		keys[wire.PartitionOf(fmt.Sprint("k", i), c.Partitions)] = fmt.Sprint("k", i)
	}
	const n = 300 // more than the shard's queue and batches hold
	for i := range n {
		for p := range c.Partitions {
			b.publishPackets([]pipelinetest.Packet{pipelinetest.One(keys[p], uint64(i+1), 2, float32(i), true)})
		}
	}
	r.waitUntil(t, "all messages of the other shard answered", func(s pipeline.Stats) bool { return s.Predictions == 2*n })
	r.waitForReads(t, 2)
	close(open)
	b.settleMessages(r, 4*n)
	more := 0
	for ; more < 1000 && r.commonReader().CountReads() < c.Partitions; more++ { // a partition joins with a message
		for p := 0; p < c.Partitions; p += 2 {
			b.publishPackets([]pipelinetest.Packet{pipelinetest.One(keys[p], uint64(n+more+1), 2, 1, true)})
		}
	}
	r.waitForReads(t, c.Partitions)
	b.settleMessages(r, 4*n+2*more)
	r.stopStage(t)
	got := b.readPredictions(c.Job)
	for p, key := range keys {
		for i, q := range got[key] {
			if q.Seq != uint64(i+1) || q.Flags != 0 {
				t.Fatalf("partition %d: prediction %d is of message %d with flags %v", p, i+1, q.Seq, q.Flags)
			}
		}
		want := n
		if p%2 == 0 {
			want += more
		}
		if len(got[key]) != want {
			t.Errorf("partition %d: %d predictions, want %d", p, len(got[key]), want)
		}
	}
}
