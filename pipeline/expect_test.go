package pipeline

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
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/stats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/internal/testing/sequencetest"
	"github.com/eusn-stream/eusn-stream/pipeline/consumer"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// predictions reads all that a job has put out, per stream in order.
func (b *rig) predictions(job string) map[string][]codec.Prediction {
	b.t.Helper()
	out := map[string][]codec.Prediction{}
	outs := map[int]uint64{}
	b.collect(wire.OutputStream(job), func(ctx context.Context, seen func() error) error {
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
	b.collect(wire.DeadLetterStream(job), func(ctx context.Context, seen func() error) error {
		return consumer.DeadLetters(ctx, b.js, job, 1, func(d consumer.DeadLetter) error {
			out = append(out, d)
			return seen()
		})
	})
	return out
}

// marks counts the messages that say of dead letters that they were sent again.
func (b *rig) marks(s jetstream.Stream) (n int) {
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

// collect reads as many messages as the NATS stream holds now.
func (b *rig) collect(stream string, reader func(ctx context.Context, seen func() error) error) {
	b.t.Helper()
	s, err := b.js.Stream(context.Background(), stream)
	if err != nil {
		b.t.Fatal(err)
	}
	info, err := s.Info(context.Background(), jetstream.WithSubjectFilter("*.out."+wire.KindJob))
	if err != nil {
		b.t.Fatal(err)
	}
	left := int(info.State.Msgs)
	for _, entries := range info.State.Subjects {
		left -= int(entries)
	}
	left -= b.marks(s)
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

// await waits until a job has put out so many predictions.
func (b *rig) await(job string, n int) map[string][]codec.Prediction {
	b.t.Helper()
	var got map[string][]codec.Prediction
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		total := 0
		got = b.predictions(job)
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

func count(m map[string][]codec.Prediction) (n int) {
	for _, ps := range m {
		n += len(ps)
	}
	return n
}

// last is a partition's record.
func (b *rig) last(job string, p int) (*jetstream.RawStreamMsg, wire.Record) {
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

// digests are the final states' of a job that has been stopped.
func (b *rig) digests(job string, partitions int) (all []string) {
	b.t.Helper()
	for p := range partitions {
		_, r := b.last(job, p)
		if r.Kind != wire.KindReleased {
			b.t.Fatalf("partition %d ends with %q, want a release", p, r.Kind)
		}
		all = append(all, r.Mark.Digest.String())
	}
	return all
}

// forgetOutput leaves nothing of a job but its input.
func (b *rig) forgetOutput(job string) {
	b.t.Helper()
	for _, name := range []string{wire.OutputStream(job), wire.DeadLetterStream(job), wire.RowStream(job), "OBJ_" + wire.SnapshotBucket(job), "KV_" + wire.MemberBucket(job)} {
		if err := b.js.DeleteStream(b.t.Context(), name); err != nil {
			b.t.Fatal(name, err)
		}
	}
	if b.config(wire.InputStream(job)) != nil {
		b.edit(wire.InputStream(job), func(c *jetstream.StreamConfig) { c.Metadata = nil }) // the mark of a job that has begun
	}
}

// direct is what the stage must say, from an engine fed by hand: one slot per
// state, one call per sample.
func direct(t testing.TB, m *reservoir.Model, streams []pipelinetest.Recording, seqOf map[string][]pipelinetest.Packet) map[string][]codec.Prediction {
	t.Helper()
	out := map[string][]codec.Prediction{}
	for _, r := range streams {
		type place struct {
			seq uint64
			row uint32
		}
		var places []place
		for _, p := range seqOf[r.Name] {
			for row := range p.Batch.Rows {
				places = append(places, place{p.Seq, uint32(row)})
			}
		}
		spans := sequencetest.Spans(m.Policy, r.Times, r.Ends, false)
		for i, sp := range spans {
			e, err := reservoir.NewGeneric(m.Network, 1)
			if err != nil {
				t.Fatal(err)
			}
			linear := m.Readouts[0].For(!sp.End)
			if err := e.SetReadouts([]*readout.Linear{linear}); err != nil {
				t.Fatal(err)
			}
			scores := make([]float32, e.ScoreWidth())
			x := pipelinetest.Behind(m, r.X, sp.From, sp.To)
			if err := e.Advance(nil, []reservoir.Run{{Reset: true, Emit: true}}, scores); err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(x); i += 2 {
				if err := e.Advance(x[i:i+2], []reservoir.Run{{Emit: true, To: 1}}, scores); err != nil {
					t.Fatal(err)
				}
			}
			class := linear.Class(scores)
			var at place
			if len(places) > 0 {
				at = places[sp.To-1]
			}
			p := codec.Prediction{
				Stream: r.Name, Seq: at.seq, Row: at.row, Time: r.Times[sp.To-1],
				Answer: outcome.Answer{Class: int32(class), Score: linear.Score(scores, class), Scores: scores, Probability: linear.Probability(scores), Flags: pipelinetest.Unlike(m, r.X[2*sp.From:2*sp.To])},
			}
			if m.Training.Rate > 0 && sequencetest.OffRate(m.Training, defaults.rateShare(), sequencetest.Timed(m.Policy, spans, i, r.Times)) {
				p.Flags |= outcome.FlagRate
			}
			if linear.Abstains(p.Probability) {
				p.Flags |= outcome.FlagAbstain
			}
			if !sp.End {
				p.Flags |= outcome.FlagEarly
				if m.Policy.Kind == reservoir.Window && sp.To < m.Policy.Length {
					p.Flags |= outcome.FlagWarmUp
				}
				var decided bool
				if p.Change, decided = m.Readouts[0].Change(int64(sp.To-sp.From), scores); decided {
					p.Flags |= outcome.FlagDecided
				}
			}
			out[r.Name] = append(out[r.Name], p)
		}
	}
	return out
}

// clean leaves a flag out of a comparison.
func clean(all map[string][]codec.Prediction, f outcome.Flag) map[string][]codec.Prediction {
	for _, ps := range all {
		for i := range ps {
			ps[i].Flags &^= f
		}
	}
	return all
}

// alone is what a shard by itself predicts from packets, each in a batch of its
// own.
func alone(t testing.TB, m *reservoir.Model, nonFinite codec.NonFinite, packets ...pipelinetest.Packet) (out []codec.Prediction) {
	t.Helper()
	c := Config{NonFinite: nonFinite, Latency: -1}.WithDefaults() // nothing is waited for
	s, err := shard.New(c.shard(), m, m.Readouts[0], pipelinetest.Generic, new(stats.Counters), slog.New(slog.DiscardHandler))
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
