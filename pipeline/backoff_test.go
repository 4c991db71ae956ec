package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// keysIn returns n keys of one partition.
func keysIn(part, partitions, n int) (keys []string) {
	for i := 0; len(keys) < n; i++ {
		if key := fmt.Sprint("k", i); wire.PartitionOf(key, partitions) == part {
			keys = append(keys, key)
		}
	}
	return keys
}

// phaseOf returns a partition's phase, and the error.
func (r *running) phaseOf(part int) (pipeline.Phase, string) {
	for _, p := range r.counters.Status().Partitions {
		if p.Partition == part {
			return p.Phase, fmt.Sprint(p.Err)
		}
	}
	return "", ""
}

// editStream changes a NATS stream as an operator would.
func (b *rig) editStream(name string, change func(*jetstream.StreamConfig)) {
	b.t.Helper()
	s, err := b.js.Stream(context.Background(), name)
	if err == nil {
		cfg := s.CachedInfo().Config
		change(&cfg)
		_, err = b.js.UpdateStream(context.Background(), cfg)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// A row store that refuses rows blocks only the partition that finds no slot, until the
// cause is gone: nothing ends, nothing is lost, nothing is published twice.
func TestRowStoreRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		hurt, mend func(b *rig, store string, conf pipeline.Config)
		says       string
	}{
		"deleted": {
			func(b *rig, store string, _ pipeline.Config) {
				if err := b.js.DeleteStream(context.Background(), store); err != nil {
					b.t.Fatal(err)
				}
			},
			func(b *rig, _ string, conf pipeline.Config) { // as the start of another worker does
				if err := store.EnsureStreams(context.Background(), b.js, conf.Layout(), b.log); err != nil {
					b.t.Fatal(err)
				}
			},
			"no response from stream",
		},
		"full": {
			func(b *rig, store string, _ pipeline.Config) {
				b.editStream(store, func(c *jetstream.StreamConfig) { c.MaxBytes, c.Discard = 10, jetstream.DiscardNew })
			},
			func(b *rig, store string, _ pipeline.Config) {
				b.editStream(store, func(c *jetstream.StreamConfig) { c.MaxBytes = -1 })
			},
			"maximum bytes exceeded",
		},
		"too large": {
			func(b *rig, store string, _ pipeline.Config) {
				b.editStream(store, func(c *jetstream.StreamConfig) { c.MaxMsgSize = 10 })
			},
			func(b *rig, store string, _ pipeline.Config) {
				b.editStream(store, func(c *jetstream.StreamConfig) { c.MaxMsgSize = -1 })
			},
			"message size exceeds maximum allowed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked, Early: 2})
			b := newRig(t)
			conf := quickConfig("held", 2)
			conf.Shards, conf.MaxSlots, conf.StopTimeout = 1, 4, patience
			conf.Lease = time.Minute // the stage itself does not check within this time
			mine, others := keysIn(0, 2, 3), keysIn(1, 2, 2)
			first := []pipelinetest.Packet{
				pipelinetest.One(mine[0], 1, 2, 1, false), pipelinetest.One(mine[1], 1, 2, 2, false),
				pipelinetest.One(others[0], 1, 2, 3, false), pipelinetest.One(others[1], 1, 2, 4, false),
			}
			fifth := []pipelinetest.Packet{pipelinetest.One(mine[2], 1, 2, 5, false)}
			more := []pipelinetest.Packet{pipelinetest.One(others[0], 2, 2, 6, false), pipelinetest.One(others[1], 2, 2, 7, false)}
			last := []pipelinetest.Packet{
				pipelinetest.One(mine[0], 2, 1, 8, true), pipelinetest.One(mine[1], 2, 1, 8, true), pipelinetest.One(mine[2], 2, 1, 8, true),
				pipelinetest.One(others[0], 3, 1, 8, true), pipelinetest.One(others[1], 3, 1, 8, true),
			}
			r := b.startStage(m, conf)
			b.publishPackets(first)
			b.awaitPredictions(conf.Job, len(first))
			c.hurt(b, wire.RowStream(conf.Job), conf.WithDefaults())
			b.publishPackets(fifth)
			r.waitUntil(t, "wait", func(s pipeline.Stats) bool { return s.Deferred > 0 })
			b.publishPackets(more) // other partitions continue, for any order of stream use
			b.awaitPredictions(conf.Job, len(first)+len(more))
			waitFor(t, "a deferred partition", func() bool { phase, _ := r.phaseOf(0); return phase == pipeline.Deferred })
			if _, err := r.phaseOf(0); !strings.Contains(err, c.says) || !strings.Contains(err, wire.RowStream(conf.Job)) {
				t.Errorf("it says %q, want %q", err, c.says)
			}
			if phase, _ := r.phaseOf(1); phase != pipeline.Reading {
				t.Errorf("the other partition is %s", phase)
			}
			status := r.counters.Status()
			if why := strings.Join(status.Unready(), "\n"); !strings.Contains(why, "partition 0: deferred: ") {
				t.Errorf("unready for %q", why)
			}
			c.mend(b, wire.RowStream(conf.Job), conf.WithDefaults())
			b.awaitPredictions(conf.Job, len(first)+len(more)+len(fifth)) // by itself
			b.publishPackets(last)
			got := b.awaitPredictions(conf.Job, 2*len(last)+2)
			if s := r.counters.Stats(); s.Stopped != 0 || s.Spilled == 0 {
				t.Errorf("%d partitions stopped, %d rows stored", s.Stopped, s.Spilled)
			}
			r.stopStage(t)
			b.onlyNamedRows(conf.Job, 2)

			calm := newRig(t)
			conf.MaxSlots = 0
			r = calm.startStage(m, conf)
			for _, packets := range [][]pipelinetest.Packet{first, fifth, more, last} {
				calm.publishPackets(packets)
			}
			want := calm.awaitPredictions(conf.Job, count(got))
			r.stopStage(t)
			same(t, got, want)
		})
	}
}

// A partition full of open sequences continues: a new stream replaces the stream silent
// longest, whose next prediction is flagged.
func TestFullPartitionGoesOn(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := quickConfig("crowd", 2)
	c.Shards, c.MaxStreams = 1, 2
	r := b.startStage(m, c)
	mine, others := keysIn(0, 2, 3), keysIn(1, 2, 1)
	for _, key := range mine {
		b.publishPackets([]pipelinetest.Packet{pipelinetest.One(key, 1, 1, 1, false)})
	}
	r.waitUntil(t, "abandon a sequence", func(s pipeline.Stats) bool { return s.Abandoned == 1 && s.New == 3 })
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One(others[0], 1, 1, 1, true), pipelinetest.One(mine[2], 2, 1, 1, true), pipelinetest.One(mine[0], 0, 1, 1, true)})
	got := b.awaitPredictions(c.Job, 3)
	for key, want := range map[string]outcome.Flag{others[0]: 0, mine[2]: 0, mine[0]: outcome.FlagGap} {
		if len(got[key]) != 1 || got[key][0].Flags != want {
			t.Errorf("%s: %+v, want a prediction with the flags %v", key, got[key], want)
		}
	}
	r.stopStage(t)
}

// Dead letters that the server refuses block only their partition; they are published
// once when the cause is gone.
func TestDeadLettersRefused(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := quickConfig("letters", 2)
	c.Shards, c.StopTimeout = 1, patience
	r := b.startStage(m, c)
	b.editStream(wire.DeadLetterStream(c.Job), func(c *jetstream.StreamConfig) { c.MaxBytes, c.Discard = 10, jetstream.DiscardNew })
	mine, others := keysIn(0, 2, 1)[0], keysIn(1, 2, 1)[0]
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One(mine, 1, 1, 1, false), {Key: mine, Seq: 2, Raw: []byte("?")}, pipelinetest.One(mine, 3, 1, 1, true)})
	r.waitUntil(t, "wait", func(s pipeline.Stats) bool { return s.Deferred > 0 })
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One(others, 1, 1, 1, true)})
	b.awaitPredictions(c.Job, 1)
	waitFor(t, "a deferred partition", func() bool { phase, _ := r.phaseOf(0); return phase == pipeline.Deferred })
	if _, err := r.phaseOf(0); !strings.Contains(err, "dead letter on letters.dlq.0 cannot be stored") {
		t.Errorf("it says %q", err)
	}
	b.editStream(wire.DeadLetterStream(c.Job), func(c *jetstream.StreamConfig) { c.MaxBytes = -1 })
	got := b.awaitPredictions(c.Job, 2)
	r.stopStage(t)
	if f := flags(got[mine]); f != "3.0:poison-skipped" {
		t.Errorf("predictions %q", f)
	}
	if n := len(b.deadLetters(c.Job)); n != 1 {
		t.Errorf("%d dead letters, want 1", n)
	}
}

// A refused commit is retried until the server accepts it: in place if the server has
// no space, from the last snapshot if the commit is too large. Both results are
// unchanged.
func TestCommitsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		hurt, mend func(*jetstream.StreamConfig)
		phase      pipeline.Phase
	}{
		"full": {
			func(c *jetstream.StreamConfig) { c.MaxBytes, c.Discard = 10, jetstream.DiscardNew },
			func(c *jetstream.StreamConfig) { c.MaxBytes = -1 }, pipeline.Reading,
		},
		"too large": { // a claim, with no predictions, is not
			func(c *jetstream.StreamConfig) { c.MaxMsgSize = 6 << 10 },
			func(c *jetstream.StreamConfig) { c.MaxMsgSize = -1 }, pipeline.Deferred,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked, Early: 1})
			b := newRig(t)
			conf := quickConfig("refused", 1)
			conf.StopTimeout = patience
			r := b.startStage(m, conf)
			packets := []pipelinetest.Packet{pipelinetest.One("a", 1, 1, 1, true), pipelinetest.One("a", 2, 200, 1, true), pipelinetest.One("a", 3, 3, 1, true)}
			b.publishPackets(packets[:1])
			b.awaitPredictions(conf.Job, 1)
			b.editStream(wire.OutputStream(conf.Job), c.hurt)
			b.publishPackets(packets[1:2])
			waitFor(t, "refusal", func() bool { phase, _ := r.phaseOf(0); return phase == c.phase && r.counters.Stats().Retries > 0 })
			b.editStream(wire.OutputStream(conf.Job), c.mend)
			b.publishPackets(packets[2:])
			got := b.awaitPredictions(conf.Job, 204)
			if s := r.counters.Stats(); s.Stopped != 0 {
				t.Errorf("%d partitions stopped", s.Stopped)
			}
			r.stopStage(t)
			same(t, got, map[string][]codec.Prediction{"a": predictAlone(t, m, codec.Reject, packets...)})
		})
	}
}

// A server that becomes unavailable between a worker's connections stops no partition:
// claimed partitions are claimed again.
func TestServerGoneBetweenConnections(t *testing.T) {
	t.Parallel()
	b := newRig(t)
	var barred atomic.Int64
	b.bar = func(name string) error {
		if strings.HasSuffix(name, "/input") && barred.Add(1) <= 3 {
			return errors.New("no connection")
		}
		return nil
	}
	c := quickConfig("between", 2)
	r := b.startStage(pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked}), c) // waits until the stage reads
	for part := range 2 {
		b.publishPackets([]pipelinetest.Packet{pipelinetest.One(keysIn(part, 2, 1)[0], 1, 1, 1, true)})
	}
	b.awaitPredictions(c.Job, 2)
	if s := r.counters.Stats(); s.Stopped != 0 || s.Deferred == 0 {
		t.Errorf("%d partitions stopped, %d deferrals, want some of these alone", s.Stopped, s.Deferred)
	}
	r.stopStage(t)
}
