package pipeline

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/shard"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/state"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/stats"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// lone is a shard without NATS, with one partition.
type lone struct {
	t testing.TB
	*shard.Shard
	p    *shard.Partition
	b    *shard.Batch
	next uint64
}

func newLone(t testing.TB, m *reservoir.Model, c Config) *lone {
	t.Helper()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	s, err := shard.New(c.WithDefaults().shard(), m, m.Readouts[0], pipelinetest.Generic, new(stats.Counters), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return &lone{t: t, Shard: s, p: shard.NewPartition(0, 0), b: shard.NewBatch(1)}
}

func (l *lone) job(p pipelinetest.Packet) shard.Job {
	l.next++
	h := nats.Header{}
	if p.Seq > 0 {
		h.Set(wire.HeaderSeq, fmt.Sprint(p.Seq))
	}
	for k, v := range p.Header {
		h.Set(k, v)
	}
	return shard.Job{Part: l.p, Msg: state.Message{Seq: l.next, Key: p.Key, Header: h, Data: p.Payload(l.t)}}
}

// feedAll takes each packet as a batch of its own and returns the
// predictions.
func (l *lone) feedAll(packets ...pipelinetest.Packet) []codec.Prediction {
	l.t.Helper()
	var out []codec.Prediction
	for _, p := range packets {
		l.b.Reset()
		if err := l.Ingest(l.b, l.job(p)); err != nil {
			l.t.Fatal(err)
		}
		if len(l.b.Dead) > 0 {
			l.t.Fatalf("dead letter: %s", l.b.Dead[0].Reason)
		}
		if err := l.Advance(l.b); err != nil {
			l.t.Fatal(err)
		}
		for _, q := range l.b.Answers[0].Preds {
			q.Scores = slices.Clone(q.Scores)
			out = append(out, q)
		}
	}
	return out
}

// rehash brings the digest of the partition up to date.
func (l *lone) rehash() error { return l.Machine.Rehash(l.p.State, l.Shard) }

// snapshot encodes the partition.
func (l *lone) snapshot() ([]byte, error) {
	return l.p.State.Encode(l.Machine.Shape, state.RowsIn{Rows: l.Shard})
}

// testOwner holds a partition without a server: nothing is stored.
type testOwner struct {
	name string
	err  error
}

func (o *testOwner) Fail(err error) {
	if o.err == nil {
		o.err = err
	}
}
func (o *testOwner) Failed() bool              { return o.err != nil }
func (o *testOwner) Claim() (string, uint64)   { return o.name, 1 }
func (*testOwner) Rebuilt()                    {}
func (*testOwner) Saving() shard.Saving        { return shard.Saving{} }
func (*testOwner) Took(uint64, []uint64, bool) {}
func (*testOwner) EndSilent([]byte) error      { return nil }
