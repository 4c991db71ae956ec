package pipeline_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// openedJob returns a job stopped with open sequences, most of whose rows are stored.
func openedJob(t *testing.T, job string, streams int) (*rig, *reservoir.Model, pipeline.Config) {
	t.Helper()
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := quickConfig(job, 1)
	c.MaxSlots = 2
	r := b.startStage(m, c)
	for i := range streams {
		b.publishPackets([]pipelinetest.Packet{pipelinetest.One(fmt.Sprint("k", i), 1, 2, float32(i)/9, false)})
	}
	b.settleMessages(r, streams)
	r.stopStage(t)
	if n := len(b.namedRows(job, 0)); n < streams-2 {
		t.Fatalf("%d rows of %d are stored apart: the test has lost its subject", n, streams)
	}
	return b, m, c
}

// Lost or changed rows stop their partition when they are needed, with a message that
// names the remedy; verify finds them earlier.
func TestRowDamage(t *testing.T) {
	for name, c := range map[string]struct {
		hurt func(s jetstream.Stream, ref wire.RowRef, b *rig) error
		says []string
	}{
		"deleted": {func(s jetstream.Stream, ref wire.RowRef, b *rig) error {
			return s.DeleteMsg(context.Background(), ref.Seq)
		}, []string{"is lost", "restore the store"}},
		"gone": {func(s jetstream.Stream, ref wire.RowRef, b *rig) error { return s.Purge(context.Background()) }, []string{"is lost", "restore the store"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, m, conf := openedJob(t, "hurt", 6)
			s, err := b.js.Stream(t.Context(), wire.RowStream("hurt"))
			if err != nil {
				t.Fatal(err)
			}
			for _, ref := range b.namedRows("hurt", 0) {
				if err := c.hurt(s, ref, b); err != nil {
					t.Fatal(err)
				}
			}
			check := &pipeline.Job{Config: conf, Model: m, NewEngine: pipelinetest.Generic}
			_, err = replay.Verify(t.Context(), b.js, check, 0)
			mentions(t, err, c.says...)
			_, err = operate.Snapshot(t.Context(), b.js, "hurt", 0)
			mentions(t, err, c.says...)
			before := len(b.readPredictions("hurt"))
			r := b.startStage(m, conf)
			for i := range 6 {
				b.publishPackets([]pipelinetest.Packet{pipelinetest.One(fmt.Sprint("k", i), 2, 1, 1, true)})
			}
			mentions(t, r.waitForEnd(t), c.says...)
			if n := len(b.readPredictions("hurt")); n != before {
				t.Errorf("%d streams have predictions", n)
			}
		})
	}
}

// An overtaken worker misses rows no longer used by the successor: the worker is late,
// and its partition is intact.
func TestMissingRowOfTheOvertaken(t *testing.T) {
	b, m, c := openedJob(t, "late", 6)
	r := b.startStage(m, c)
	out, err := b.js.Stream(t.Context(), wire.OutputStream("late"))
	if err != nil {
		t.Fatal(err)
	}
	_, ours := b.lastRecord("late", 0)
	other := &store.Committer{JS: b.js, Stream: out, Job: "late", Worker: "other", Log: b.log, Retries: func() {}, Model: ours.Identity}
	empty, err := wire.NoPredictions(codec.PredictionMeta{Labels: []string{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.ClaimPartition(t.Context(), empty, func(wire.Record) bool { return false }); err != nil {
		t.Fatal(err)
	}
	s, err := b.js.Stream(t.Context(), wire.RowStream("late"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		b.publishPackets([]pipelinetest.Packet{pipelinetest.One(fmt.Sprint("k", i), 2, 1, 1, true)})
	}
	r.waitUntil(t, "fencing", func(s pipeline.Stats) bool { return s.Fenced == 1 && s.Stopped == 0 })
	// It reclaims the partition, and now the rows are missing.
	mentions(t, r.waitForEnd(t), "is lost")
}
