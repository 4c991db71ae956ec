package pipeline_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/inlog"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/stats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// carriedOf returns a job's predictions with features, each once.
func (b *rig) carriedOf(job string) map[string]codec.Prediction {
	b.t.Helper()
	all := map[string]codec.Prediction{}
	err := consumer.Carried(b.t.Context(), b.js, job, consumer.Span{From: 1, Stored: true}, func(o consumer.CarriedOutput) error {
		for _, p := range o.Predictions {
			at := fmt.Sprint(p.Stream, " ", p.Details.Input, " ", p.Seq, " ", p.Row)
			if _, twice := all[at]; twice {
				b.t.Errorf("%s comes twice", at)
			}
			all[at] = p
		}
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return all
}

// Predictions carry their features while workers are killed and a readout is promoted,
// under each policy: exactly the predictions of the share, each once, with the bits of
// the log's samples, and with the prediction's scores. The job's predictions and states
// are the same as without features.
func TestFeaturesAreCarriedThroughCrashes(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy reservoir.Policy
		share  float64
	}{
		{"marked", reservoir.Policy{Kind: reservoir.Marked, Early: 3}, 1},
		{"sampled", reservoir.Policy{Kind: reservoir.Count, Length: 1}, .3},
		{"windows", reservoir.Policy{Kind: reservoir.Window, Length: 6, Hop: 2}, 1},
		{"endless", reservoir.Policy{Kind: reservoir.Endless, Early: 3}, .5},
	} {
		t.Run(c.name, func(t *testing.T) { checkCarried(t, "carry-"+c.name, c.policy, c.share) })
	}
}

func checkCarried(t *testing.T, job string, policy reservoir.Policy, share float64) {
	m := severalReadouts(t, policy)
	b := newRig(t)
	b.carry = share
	c := quickConfig(job, 3)
	rng := rand.New(rand.NewPCG(8, 9))
	const keys, rounds = 7, 3
	seqs, sent := map[string]uint64{}, map[string][]pipelinetest.Packet{}
	more := func() {
		for range 3 * keys {
			key := fmt.Sprint("k", rng.IntN(keys))
			seqs[key]++
			p := pipelinetest.One(key, seqs[key], 4, rng.Float32(), rng.IntN(4) == 0)
			sent[key] = append(sent[key], p)
			b.publishPackets([]pipelinetest.Packet{p})
		}
	}
	r := b.startStage(m, c)
	for round := range rounds {
		more()
		if round == 1 {
			if _, err := operate.Promote(t.Context(), b.js, job, operate.PromoteOptions{Readout: b.publishReadout(job, m, "b"), Who: "anna"}); err != nil {
				t.Fatal(err)
			}
		}
		if round%2 == 0 {
			r.crashStage(t)
			b.expireMembers(job)
		} else {
			r.waitUntil(t, "all input", func(s pipeline.Stats) bool { return s.Lag == 0 })
			r.stopStage(t)
		}
		more()
		r = b.startStage(m, c)
	}
	all := 0
	for _, packets := range sent {
		all += len(predictAlone(t, m, codec.Reject, packets...))
	}
	predicted := map[string]codec.Prediction{} // predictions that should carry features
	for _, ps := range b.awaitPredictions(job, all) {
		for _, p := range ps {
			if wire.Carries(p.Stream, p.Seq, p.Row, share) && (p.Flags&outcome.FlagEarly != 0) == (policy.Kind == reservoir.Endless) {
				predicted[fmt.Sprint(p.Stream, " ", p.Seq, " ", p.Row)] = p
			}
		}
	}
	r.stopStage(t)
	b.repeatCarried(job)
	got := b.carriedOf(job)
	if len(got) != len(predicted) || len(got) < 10 || len(got) == all != (policy.Kind == reservoir.Window) {
		t.Fatalf("%d predictions carry features, want %d, of %d", len(got), len(predicted), all)
	}
	// The log's bits.
	s := &pipeline.Worker{Job: pipeline.Job{Config: c, Model: m, NewEngine: pipelinetest.Generic, Dial: b.dialServer, Log: b.log}}
	seen := 0
	err := b.followJob(m, c, shard.Followed{
		Stream: func(string) bool { return true },
		Want: func(q *shard.Sequence) bool {
			return (q.Flags&outcome.FlagEarly != 0) == (policy.Kind == reservoir.Endless)
		},
		Take: func(q *shard.Sequence, features []float32) error {
			p, carries := got[fmt.Sprint(q.Stream, " ", q.In, " ", q.Seq, " ", q.Row)]
			if carries != wire.Carries(q.Stream, q.Seq, q.Row, share) {
				t.Errorf("%s, %d, %d (message %d) carries features: %t", q.Stream, q.Seq, q.Row, q.In, carries)
			}
			if !carries {
				return nil
			}
			seen++
			made := predicted[fmt.Sprint(q.Stream, " ", q.Seq, " ", q.Row)]
			if d := p.Details; !slices.Equal(d.Features, features) || d.Stored != q.Stored || d.Samples != q.Samples {
				t.Errorf("%s, %d, %d: not the features, time and length of the log: %d samples, stored %d, want %d, %d", q.Stream, q.Seq, q.Row, d.Samples, d.Stored, q.Samples, q.Stored)
			}
			if !slices.Equal(p.Scores, made.Scores) || p.Class != made.Class || p.Flags != made.Flags {
				t.Errorf("%s, %d, %d: not the prediction that was made", q.Stream, q.Seq, q.Row)
			}
			return nil
		},
	})
	if err != nil || seen != len(got) {
		t.Errorf("%d of %d are in the log: %v", seen, len(got), err)
	}
	for p := range 3 {
		if v, err := replay.Verify(t.Context(), b.js, &s.Job, p); err != nil || v.Digest != v.Recorded {
			t.Errorf("partition %d: %+v, %v", p, v, err)
		}
	}
}

// followJob hands the features of a job's log to f.
func (b *rig) followJob(m *reservoir.Model, c pipeline.Config, f shard.Followed) error {
	j, err := store.Open(b.t.Context(), b.js, c.Job)
	if err != nil {
		return err
	}
	sh, err := shard.New(c.WithDefaults().Shard(), m, m.Readouts[0], pipelinetest.Generic, new(stats.Counters), b.log)
	if err != nil {
		return err
	}
	defer sh.Close()
	sh.Machine.OneReadout = true // whatever is promoted in the log
	d, err := shard.NewDirect(sh, nil)
	if err != nil {
		return err
	}
	d.FollowSequences(f)
	in := j.Input(nil)
	info, err := in.Info(b.t.Context(), 0)
	if err != nil {
		return err
	}
	l := &inlog.Log{Input: in, JS: b.js, Log: b.log}
	if err := l.Open(b.t.Context(), inlog.Place{}, 1, info.State.LastSeq); err != nil {
		return err
	}
	defer l.Close()
	all := inlog.Batches{Source: l, Direct: d, Read: func(*inlog.Message) bool { return true }}
	return all.Run(b.t.Context(), func() error { _, err := d.ComputeFeatures(); return err })
}

// repeatCarried republishes the last messages with features, like a worker after a
// takeover.
func (b *rig) repeatCarried(job string) {
	b.t.Helper()
	s, err := b.js.Stream(b.t.Context(), wire.FeatureStream(job))
	if err != nil {
		b.t.Fatal(err)
	}
	last := s.CachedInfo().State.LastSeq
	for seq := last - min(last, 5) + 1; seq <= last; seq++ {
		m, err := s.GetMsg(b.t.Context(), seq)
		if err == nil {
			_, err = b.js.PublishMsg(b.t.Context(), &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data})
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

// A NATS stream of features deleted under a running stage is recreated, and a partition
// that needs the stream continues.
func TestFeatureStreamIsMadeAgain(t *testing.T) {
	m := severalReadouts(t, reservoir.Policy{Kind: reservoir.Count, Length: 1})
	b := newRig(t)
	b.carry = 1
	c := quickConfig("again", 1)
	r := b.startStage(m, c)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", 1, 2, .5, false)})
	b.awaitPredictions("again", 2)
	b.removeStream(wire.FeatureStream("again"))
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", 2, 3, .5, false)})
	b.awaitPredictions("again", 5)
	r.stopStage(t)
	if got := b.carriedOf("again"); len(got) != 3 {
		t.Errorf("%d predictions carry features after it, want 3", len(got))
	}
}

// An invalid share is refused before any request to a server.
func TestCarryRefused(t *testing.T) {
	for _, share := range []float64{-.1, 1.1} {
		s := &pipeline.Worker{Job: pipeline.Job{Config: quickConfig("x", 1), Model: severalReadouts(t, reservoir.Policy{Kind: reservoir.Marked}), NewEngine: pipelinetest.Generic, Dial: func(context.Context, string) (*nats.Conn, error) { panic("dialled") }}, Carry: share}
		if err := s.Run(t.Context()); err == nil {
			t.Errorf("a share of %g is taken", share)
		}
	}
}
