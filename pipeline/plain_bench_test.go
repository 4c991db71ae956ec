//go:build unix

package pipeline_test

import (
	"context"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// plainStage is the baseline for the protocol's cost: an ordinary NATS stage around the
// same parts. Ordered consumers, decoder, sequencer, engine, encoder and batches are
// the stage's; predictions are plain asynchronous publishes with hundreds in flight. It
// has no claim, no expectation, no record headers, no digest, no snapshot, no
// membership, and would lose or repeat predictions and states at the first fault.
type plainStage struct {
	counters pipeline.Counters
	wg       sync.WaitGroup
	stop     context.CancelFunc
	readers  []jetstream.ConsumeContext
	js       jetstream.JetStream
}

// plainPending is how many messages of predictions may be unacknowledged.
const plainPending = 512

func (b *rig) startPlain(m *reservoir.Model, c pipeline.Config, engine pipeline.EngineFactory) *plainStage {
	b.t.Helper()
	c = c.WithDefaults()
	ctx, stop := context.WithCancel(context.Background())
	s := &plainStage{stop: stop}
	out, in := b.plainConnection("out"), b.plainConnection("in")
	s.js = out
	per := (c.Partitions + c.Shards - 1) / c.Shards
	var shards []*shard.Shard
	for range c.Shards {
		sh, err := shard.New(c.Shard(), m, m.Readouts[0], engine, s.counters.Counts(), b.log)
		if err != nil {
			b.t.Fatal(err)
		}
		shards = append(shards, sh)
		enc, err := codec.NewPredictionEncoder(codec.PredictionMeta{Model: "test-model", Labels: m.Readouts[0].Classes, Columns: m.Readouts[0].Columns()})
		if err != nil {
			b.t.Fatal(err)
		}
		batches, free := make(chan *shard.Batch, shard.BatchesPerShard), make(chan *shard.Batch, shard.BatchesPerShard)
		for range shard.BatchesPerShard {
			free <- shard.NewBatch(per)
		}
		s.wg.Go(func() { s.computeBatches(ctx, b.t, sh, batches, free) })
		s.wg.Go(func() { s.publishBatches(b.t, c.Job, &owner.Splitter{Encoder: enc, Limit: 4 << 20}, batches, free) })
	}
	pull, _ := owner.PullBytes(c.Partitions, c.MaxMessage)
	for p := range c.Partitions {
		w := &owner.Worker{
			Job: c.Job, Log: b.log, Counters: s.counters.Counts(), Safeguards: owner.Safeguards{Trusting: true},
			Server: owner.Server{Snaps: &store.Snapshots{}},
		}
		t := owner.New(ctx, w, shards[p%c.Shards], p, p/c.Shards)
		cc, err := t.Receive(in, 1, pull)
		if err != nil {
			b.t.Fatal(err)
		}
		s.readers = append(s.readers, cc)
	}
	return s
}

func (b *rig) plainConnection(name string) jetstream.JetStream {
	nc, err := b.dialServer(b.t.Context(), name)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(plainPending))
	if err != nil {
		b.t.Fatal(err)
	}
	return js
}

func (s *plainStage) computeBatches(ctx context.Context, t testing.TB, sh *shard.Shard, out chan<- *shard.Batch, free <-chan *shard.Batch) {
	defer close(out)
	defer sh.Close()
	for ctx.Err() == nil {
		b := <-free
		b.Reset()
		if err := sh.CollectBatch(ctx, b); err != nil {
			t.Error(err)
			return
		}
		if err := sh.AdvanceBatch(b); err != nil {
			t.Error(err)
			return
		}
		out <- b
	}
}

func (s *plainStage) publishBatches(t testing.TB, job string, e *owner.Splitter, in <-chan *shard.Batch, free chan<- *shard.Batch) {
	for b := range in {
		for _, i := range b.Touched {
			a := &b.Answers[i]
			for from := 0; from < len(a.Preds); {
				body, to, err := e.Encode(a, from)
				if err == nil {
					_, err = s.js.PublishAsync(wire.OutputSubject(job, a.Part.State.ID), body)
				}
				if err != nil {
					t.Error(err)
					return
				}
				s.counters.Counts().Predictions.Add(uint64(to - from))
				s.counters.Counts().Commits.Add(1)
				from = to
			}
		}
		s.counters.Counts().Messages.Add(uint64(b.Fx.Used))
		s.counters.Counts().Rows.Add(uint64(b.Fx.Rows))
		free <- b
	}
}

// flushPublishes returns when everything published is acknowledged.
func (s *plainStage) flushPublishes() { <-s.js.PublishAsyncComplete() }

func (s *plainStage) closeStage() {
	s.stop()
	for _, cc := range s.readers {
		natsclient.StopConsumer(cc, owner.CloseDeadline)
	}
	s.wg.Wait()
}
