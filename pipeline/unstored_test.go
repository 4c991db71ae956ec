package pipeline_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// While the bucket refuses snapshots, no record names one: a trim of the input, or a
// claim of the partition, relies on the record.
func TestUnstoredSnapshotIsNotNamed(t *testing.T) {
	t.Parallel()
	b, book := newLoggedRig(t)
	c := quickConfig("unstored", 1)
	c.SnapshotMessages = 1
	r := b.startStage(pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked}), c)
	b.editStream(wire.SnapshotStream(c.Job), func(s *jetstream.StreamConfig) { s.MaxMsgSize = 1 })
	for i := range 8 {
		b.publishPackets(endedSequences("a", 1, float32(i)/8))
		b.settleMessages(r, i+1)
	}
	waitFor(t, "a failed upload", func() bool { return book.Lines("snapshot not stored") > 0 })
	if _, rec := b.lastRecord(c.Job, 0); rec.InSeq != 8 || rec.Snap != "" || rec.SnapSeq != 0 {
		t.Errorf("the record of message %d names snapshot %q of message %d", rec.InSeq, rec.Snap, rec.SnapSeq)
	}
	if n := book.Lines("snapshot not stored"); n > 6 {
		t.Errorf("%d uploads of 8 messages failed one after the other: they do not wait", n)
	}
	b.editStream(wire.SnapshotStream(c.Job), func(s *jetstream.StreamConfig) { s.MaxMsgSize = -1 })
	r.stopStage(t)
	if !b.hasSnapshot(c.Job, 0) {
		t.Error("the last snapshot is not stored")
	}
}

// A worker leaves a record of another generation unchanged, for any subject transform
// of the input.
func TestOtherGenerationIsNotClaimed(t *testing.T) {
	t.Parallel()
	b := newRig(t)
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	c := quickConfig("later", 1)
	b.answerPackets(m, c, endedSequences("a", 1, 1), 1)
	_, rec := b.lastRecord(c.Job, 0)
	rec.Generation, rec.Epoch = 1, rec.Epoch+1
	ack, err := b.js.PublishMsg(t.Context(), &nats.Msg{Subject: wire.OutputSubject(c.Job, 0), Header: rec.Header()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s := &pipeline.Worker{Job: pipeline.Job{Config: c, Model: m, ModelName: "test-model", NewEngine: pipelinetest.Generic, Dial: b.dialServer, Log: b.log}}
	mentions(t, s.Run(ctx), "the record on later.out.0 is of generation 1", "this worker began in generation 0")
	if raw, _ := b.lastRecord(c.Job, 0); raw.Sequence != ack.Sequence {
		t.Errorf("the record is message %d, want %d: it was claimed", raw.Sequence, ack.Sequence)
	}
}

// alterSnapshot changes a stored snapshot into another readable snapshot.
func (b *rig) alterSnapshot(job, name string) error {
	s, err := store.FindSnapshots(b.t.Context(), b.js, job)
	if err != nil {
		return err
	}
	raw, err := s.Get(b.t.Context(), name)
	if err != nil {
		return err
	}
	part, _, _, _ := wire.ParseSnapshotName(name)
	sh, _, err := state.ShapeIn(raw)
	if err != nil {
		return err
	}
	p, err := state.Decode(raw, sh, part)
	if err != nil {
		return err
	}
	if len(p.Sources) == 0 {
		return errors.New("the snapshot has no key to alter")
	}
	for _, src := range p.Sources {
		src.Last++
	}
	if raw, err = p.Encode(sh, state.DecodedRows{}); err != nil {
		return err
	}
	return s.Put(b.t.Context(), name, raw)
}

// Resize refuses a state that differs from the record, and stores only verified states.
// Its records have higher epochs than all earlier records.
func TestResizeCompares(t *testing.T) {
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	for name, c := range map[string]struct {
		step string // at the first of these steps
		what func(b *rig, job, step string) error
		says []string
	}{
		"a state that is not the record's": {"snapshot p0.", func(b *rig, job, _ string) error {
			_, rec := b.lastRecord(job, 1)
			return b.alterSnapshot(job, rec.Snap)
		}, []string{"snapshot p1.", "of partition 1 has digest", "but its record has"}},
		"a state that is not what was stored": {"check p", func(b *rig, job, step string) error {
			return b.alterSnapshot(job, strings.TrimPrefix(step, "check "))
		}, []string{"the keys of partitions", "after they were given to partitions"}},
		"nothing": {"none", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newRig(t)
			conf := quickConfig("compared", 2)
			var packets []pipelinetest.Packet
			for _, key := range append(keysIn(0, 4, 1), append(keysIn(1, 4, 1), append(keysIn(2, 4, 1), keysIn(3, 4, 1)...)...)...) {
				packets = append(packets, pipelinetest.One(key, 1, 2, 1, false))
			}
			b.answerPackets(m, conf, packets, len(packets))
			s, done := b.newChanger(m, conf), false
			s.before = func(step string) error {
				if done || !strings.HasPrefix(step, c.step) {
					return nil
				}
				done = true
				return c.what(b, conf.Job, step)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			_, err := s.resizeJob(ctx, 4)
			if c.what != nil {
				mentions(t, err, c.says...)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			b.checkRising(conf.Job, 4)
		})
	}
}

// checkRising wants the last record of each partition to have a higher epoch than any
// record before.
func (b *rig) checkRising(job string, partitions int) {
	b.t.Helper()
	out, err := b.js.Stream(b.t.Context(), wire.OutputStream(job))
	if err != nil {
		b.t.Fatal(err)
	}
	last := map[string]uint64{} // their numbers
	for p := range partitions {
		raw, _ := b.lastRecord(job, p)
		last[raw.Subject] = raw.Sequence
	}
	var highest, lowest uint64 = 0, 1 << 63
	for seq := uint64(1); seq <= out.CachedInfo().State.LastSeq; seq++ {
		raw, err := out.GetMsg(b.t.Context(), seq)
		if err != nil || raw.Subject == wire.EntrySubject(job) {
			continue
		}
		rec, err := wire.ParseRecord(raw.Header, raw.Subject, raw.Sequence)
		if err != nil {
			b.t.Fatal(err)
		}
		if last[raw.Subject] == seq {
			lowest = min(lowest, rec.Epoch)
		} else {
			highest = max(highest, rec.Epoch)
		}
	}
	if lowest <= highest {
		b.t.Errorf("a record of the new partitions has epoch %d, one before had %d", lowest, highest)
	}
}
