package shard

import (
	"cmp"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/stats"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// lone is a shard without NATS, with one partition.
type lone struct {
	t testing.TB
	*Shard
	p    *Partition
	b    *Batch
	next uint64
}

// newLone makes a lone shard with the configuration c; 0 selects a stage's default.
func newLone(t testing.TB, m *reservoir.Model, c Config) *lone {
	t.Helper()
	return newLoneOn(t, m, c, pipelinetest.Generic)
}

// newLoneOn makes a lone shard on other engines.
func newLoneOn(t testing.TB, m *reservoir.Model, c Config, engines engineFactory) *lone {
	t.Helper()
	c.RowBudget = cmp.Or(c.RowBudget, 32_000)
	c.MaxMessage = cmp.Or(c.MaxMessage, 1<<20-16<<10)
	c.MaxSlots = cmp.Or(c.MaxSlots, 1<<16)
	c.MaxStreams = cmp.Or(c.MaxStreams, 1<<14)
	c.Reorder = cmp.Or(c.Reorder, 16)
	c.ReorderBytes = cmp.Or(c.ReorderBytes, 8<<20)
	c.SnapshotMessages = cmp.Or(c.SnapshotMessages, 4096)
	c.NonFinite = cmp.Or(c.NonFinite, codec.Reject)
	c.Latency = cmp.Or(c.Latency, 5*time.Millisecond)
	c.SnapshotEvery = cmp.Or(c.SnapshotEvery, 30*time.Second)
	c.Lease = cmp.Or(c.Lease, 3*time.Second)
	s, err := New(c, m, m.Readouts[0], engines, new(stats.Counters), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return &lone{t: t, Shard: s, p: NewPartition(0, 0), b: NewBatch(1)}
}

func (l *lone) jobOf(p pipelinetest.Packet) Job {
	l.next++
	return Job{Part: l.p, Msg: state.Message{Seq: l.next, Key: p.Key, Header: p.Headers(), Data: p.Payload(l.t)}}
}

// feedAll processes each packet as one batch and returns the predictions.
func (l *lone) feedAll(packets ...pipelinetest.Packet) []codec.Prediction {
	l.t.Helper()
	var out []codec.Prediction
	for _, p := range packets {
		l.b.Reset()
		if err := l.takeJob(l.b, l.jobOf(p)); err != nil {
			l.t.Fatal(err)
		}
		if len(l.b.Dead) > 0 {
			l.t.Fatalf("dead letter: %s", l.b.Dead[0].Reason)
		}
		if err := l.AdvanceBatch(l.b); err != nil {
			l.t.Fatal(err)
		}
		for _, q := range l.b.Answers[0].Preds {
			q.Scores, q.Inputs = slices.Clone(q.Scores), slices.Clone(q.Inputs)
			out = append(out, q)
		}
	}
	return out
}

// updateDigest brings the digest of the partition up to date.
func (l *lone) updateDigest() error { return l.Machine.UpdateDigest(l.p.State, l.Shard) }

// encodeState encodes the partition.
func (l *lone) encodeState() ([]byte, error) {
	return l.p.State.Encode(l.Machine.Shape, state.RowsIn{Rows: l.Shard})
}

// testOwner holds a partition without a server: nothing is stored.
type testOwner struct {
	name   string
	err    error
	events int // number of end events received
}

func (o *testOwner) Fail(err error) {
	if o.err == nil {
		o.err = err
	}
}
func (o *testOwner) Failed() bool                      { return o.err != nil }
func (o *testOwner) Claim() (string, uint64)           { return o.name, 1 }
func (*testOwner) Rebuilt()                            {}
func (*testOwner) Saving() Saving                      { return Saving{} }
func (*testOwner) NoteSnapshot(uint64, []uint64, bool) {}
func (o *testOwner) EndSilent([]byte) error            { o.events++; return nil }
