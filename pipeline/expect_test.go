package pipeline_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/stats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// readPredictions returns all predictions of a job, per stream in order.
func (b *rig) readPredictions(job string) map[string][]codec.Prediction {
	b.t.Helper()
	out := map[string][]codec.Prediction{}
	outs := map[int]uint64{}
	b.collectMessages(wire.OutputStream(job), func(ctx context.Context, seen func() error) error {
		return consumer.Predictions(ctx, b.js, job, 1, func(o consumer.Output) error {
			outs[o.Partition] += uint64(len(o.Predictions))
			if outs[o.Partition] != o.Outs {
				b.t.Errorf("partition %d: message says %d predictions so far, %d were read", o.Partition, o.Outs, outs[o.Partition])
			}
			for _, p := range o.Predictions {
				out[p.Stream] = append(out[p.Stream], p)
			}
			return seen()
		})
	})
	return out
}

func (b *rig) deadLetters(job string) []consumer.DeadLetter {
	b.t.Helper()
	var out []consumer.DeadLetter
	b.collectMessages(wire.DeadLetterStream(job), func(ctx context.Context, seen func() error) error {
		return consumer.DeadLetters(ctx, b.js, job, 1, func(d consumer.DeadLetter) error {
			out = append(out, d)
			return seen()
		})
	})
	return out
}

// countMarks counts the messages that mark resent dead letters.
func (b *rig) countMarks(s jetstream.Stream) (n int) {
	state := s.CachedInfo().State
	if !strings.HasSuffix(s.CachedInfo().Config.Name, "-DLQ") {
		return 0
	}
	for seq := state.FirstSeq; seq <= state.LastSeq && state.Msgs > 0; seq++ {
		if m, err := s.GetMsg(context.Background(), seq); err == nil && m.Header.Get(wire.HeaderKind) == wire.KindSentAgain {
			n++
		}
	}
	return n
}

// collectMessages reads as many messages as the NATS stream holds now.
func (b *rig) collectMessages(stream string, reader func(ctx context.Context, seen func() error) error) {
	b.t.Helper()
	s, err := b.js.Stream(context.Background(), stream)
	if err != nil {
		b.t.Fatal(err)
	}
	left := -1
	for left < 0 { // a stream that grows between the server's two counts can have more entries than messages
		info, err := s.Info(context.Background(), jetstream.WithSubjectFilter("*.out."+wire.KindJob))
		if err != nil {
			b.t.Fatal(err)
		}
		left = int(info.State.Msgs)
		for _, entries := range info.State.Subjects {
			left -= int(entries)
		}
		left -= b.countMarks(s)
	}
	if left == 0 {
		return
	}
	all := errors.New("read all there is")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err = reader(ctx, func() error {
		if left--; left == 0 {
			return all
		}
		return nil
	})
	if err != all {
		b.t.Fatalf("%s: %d messages not read: %v", stream, left, err)
	}
}

// awaitPredictions waits until a job has published n predictions.
func (b *rig) awaitPredictions(job string, n int) map[string][]codec.Prediction {
	b.t.Helper()
	var got map[string][]codec.Prediction
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		total := 0
		got = b.readPredictions(job)
		for _, ps := range got {
			total += len(ps)
		}
		if total >= n {
			return got
		}
	}
	b.t.Fatalf("%d predictions did not come within %v", n, patience)
	return nil
}

// lastRecord is a partition's record.
func (b *rig) lastRecord(job string, p int) (*jetstream.RawStreamMsg, wire.Record) {
	b.t.Helper()
	out, err := b.js.Stream(context.Background(), wire.OutputStream(job))
	if err != nil {
		b.t.Fatal(err)
	}
	raw, err := out.GetLastMsgForSubject(context.Background(), wire.OutputSubject(job, p))
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := wire.ParseRecord(raw.Header, raw.Subject, raw.Sequence)
	if err != nil {
		b.t.Fatal(err)
	}
	return raw, r
}

// finalDigests returns the digests of the final states of a stopped job.
func (b *rig) finalDigests(job string, partitions int) (all []string) {
	b.t.Helper()
	for p := range partitions {
		_, r := b.lastRecord(job, p)
		if r.Kind != wire.KindReleased {
			b.t.Fatalf("partition %d ends with %q, want a release", p, r.Kind)
		}
		all = append(all, r.Mark.Digest.String())
	}
	return all
}

// forgetOutput deletes all data of a job except its input.
func (b *rig) forgetOutput(job string) {
	b.t.Helper()
	for _, name := range []string{wire.OutputStream(job), wire.DeadLetterStream(job), wire.RowStream(job), "OBJ_" + wire.SnapshotBucket(job), "KV_" + wire.MemberBucket(job)} {
		if err := b.js.DeleteStream(b.t.Context(), name); err != nil {
			b.t.Fatal(name, err)
		}
	}
	if b.streamConfig(wire.InputStream(job)) != nil {
		b.editStream(wire.InputStream(job), func(c *jetstream.StreamConfig) { c.Metadata = nil }) // the mark of a job that has begun
	}
}

// predictAlone returns the predictions of a single shard from packets, each in its own batch.
func predictAlone(t testing.TB, m *reservoir.Model, nonFinite codec.NonFinite, packets ...pipelinetest.Packet) (out []codec.Prediction) {
	t.Helper()
	c := pipeline.Config{NonFinite: nonFinite, Latency: -1}.WithDefaults() // no waiting
	s, err := shard.New(c.Shard(), m, m.Readouts[0], pipelinetest.Generic, new(stats.Counters), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	p, b := shard.NewPartition(0, 0), shard.NewBatch(1)
	for i, packet := range packets {
		s.Queue <- shard.Job{Part: p, Msg: state.Message{Seq: uint64(i + 1), Key: packet.Key, Header: packet.Headers(), Data: packet.Payload(t)}}
		if err := s.Next(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if len(b.Dead) > 0 {
			t.Fatalf("dead letter: %s", b.Dead[0].Reason)
		}
		for _, q := range b.Answers[0].Preds {
			q.Scores, q.Set, q.Inputs = slices.Clone(q.Scores), slices.Clone(q.Set), slices.Clone(q.Inputs)
			out = append(out, q)
		}
	}
	return out
}
