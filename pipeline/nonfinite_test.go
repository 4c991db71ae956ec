package pipeline_test

import (
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// policyRun feeds a stream through a job with a changing policy on missing values
// between runs.
type policyRun struct {
	nonFinite codec.NonFinite
	packets   []pipelinetest.Packet
	crash     bool
}

func (b *rig) policyRuns(t *testing.T, m *reservoir.Model, c pipeline.Config, runs []policyRun) []codec.Prediction {
	t.Helper()
	sent := 0
	for _, run := range runs {
		c.NonFinite = run.nonFinite
		r := b.startStage(m, c)
		b.publishPackets(run.packets)
		sent += len(run.packets)
		b.settleMessages(r, sent)
		if s := r.counters.Stats(); s.Stopped > 0 {
			t.Fatalf("%s: %d partitions stopped", run.nonFinite, s.Stopped)
		}
		if run.crash {
			r.crashStage(t)
			b.expireMembers(c.Job)
		} else {
			r.stopStage(t)
		}
	}
	return b.readPredictions(c.Job)["a"]
}

// A job continues after an orderly stop with another policy on missing values, in the
// middle of sequences. Under hold, a first missing value becomes the stream's previous
// sample if a stage with hold has read it, and the mean otherwise. A crash before the
// next snapshot changes nothing.
func TestNonFiniteChangesAfterRelease(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked, Early: 2}) // so that each message is committed
	mean := m.Network.Norm.Mean
	nan := pipelinetest.NaN
	type packets = []pipelinetest.Packet
	first, second, third := pipelinetest.Rows("a", 1, false, 1, 2, 3, 4), pipelinetest.Rows("a", 2, false, nan, 5, nan, 6, 7, nan), pipelinetest.Rows("a", 3, true, nan, 8)
	whole := pipelinetest.Rows("a", 2, false, 5, 6)
	filled := func(x float32) packets {
		return packets{first, pipelinetest.Rows("a", 2, false, x, 5, x, 6, 7, 6), pipelinetest.Rows("a", 3, true, 7, 8)}
	}
	for name, c := range map[string]struct {
		runs   []policyRun
		want   packets
		misses uint64 // the first message with missing values
	}{
		"to hold":                   {[]policyRun{{"reject", packets{first}, false}, {"hold", packets{second, third}, false}}, filled(mean[0]), 2},
		"to hold, then killed":      {[]policyRun{{"reject", packets{first}, false}, {"hold", packets{second}, true}, {"hold", packets{third}, false}}, filled(mean[0]), 2},
		"to hold, killed at once":   {[]policyRun{{"reject", packets{first}, false}, {"hold", nil, true}, {"hold", packets{second, third}, false}}, filled(mean[0]), 2},
		"to hold, back and forth":   {[]policyRun{{"reject", packets{first}, false}, {"hold", nil, false}, {"reject", nil, false}, {"hold", packets{second, third}, false}}, filled(mean[0]), 2},
		"from hold and back":        {[]policyRun{{"hold", packets{first}, false}, {"zero", nil, false}, {"hold", packets{second, third}, false}}, filled(3), 2},
		"from hold, read, and back": {[]policyRun{{"hold", packets{first}, false}, {"zero", packets{whole}, false}, {"hold", packets{third}, false}}, packets{first, whole, pipelinetest.Rows("a", 3, true, mean[0], 8)}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newRig(t)
			conf := quickConfig("change", 1)
			conf.SnapshotMessages = 1000
			got := b.policyRuns(t, m, conf, c.runs)
			want := predictAlone(t, m, codec.Hold, c.want...)
			for i := range want {
				if want[i].Seq >= c.misses {
					want[i].Flags |= outcome.FlagHeld
				}
			}
			same(t, map[string][]codec.Prediction{"a": got}, map[string][]codec.Prediction{"a": want})
		})
	}
}

// After a crash the input after the snapshot would be replayed under another policy:
// the digest detects the difference, and with the old policy the job continues.
func TestNonFiniteChangedAfterCrash(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked, Early: 1})
	b := newRig(t)
	c := quickConfig("change", 1)
	c.SnapshotMessages, c.NonFinite = 1000, "reject"
	packets := []pipelinetest.Packet{pipelinetest.Rows("a", 1, false, 1, 2), pipelinetest.Rows("a", 2, false, 3, 4), pipelinetest.Rows("a", 3, true, 5, 6)}
	r := b.startStage(m, c)
	b.publishPackets(packets[:1])
	b.settleMessages(r, 1)
	r.stopStage(t) // with a snapshot
	r = b.startStage(m, c)
	b.publishPackets(packets[1:2])
	b.settleMessages(r, 2)
	r.crashStage(t)
	b.expireMembers("change")
	if _, last := b.lastRecord("change", 0); last.Mark.Seq <= last.SnapSeq {
		t.Fatalf("%+v: the test has lost its subject", last)
	}
	c.NonFinite = codec.Hold
	err := (&pipeline.Worker{Job: pipeline.Job{Config: c, Model: m, NewEngine: pipelinetest.Generic, Dial: b.dialServer}}).Run(t.Context())
	mentions(t, err, "digest", "non_finite", "set these settings back")
	b.expireMembers("change")
	c.NonFinite = "reject"
	r = b.startStage(m, c)
	b.publishPackets(packets[2:])
	got := b.awaitPredictions("change", 3)
	r.stopStage(t)
	same(t, got, map[string][]codec.Prediction{"a": predictAlone(t, m, codec.Reject, packets...)})
}
