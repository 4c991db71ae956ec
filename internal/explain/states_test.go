package explain

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

func (r *rig) explainer() *Explainer {
	return &Explainer{JS: r.js, Job: pipeline.Job{Config: r.conf, NewEngine: pipelinetest.Generic, Log: pipelinetest.Log(r)}}
}

// recordDigests returns the digests of a partition's records, by input message.
func (r *rig) recordDigests(part int) map[uint64]string {
	r.Helper()
	all := map[uint64]string{}
	out, err := r.js.Stream(r.Context(), wire.OutputStream(job))
	if err != nil {
		r.Fatal(err)
	}
	for seq := uint64(1); ; seq++ {
		raw, err := out.GetMsg(r.Context(), seq, jetstream.WithGetMsgSubject(wire.OutputSubject(job, part)))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return all
		}
		if err != nil {
			r.Fatal(err)
		}
		rec, err := wire.ParseRecord(raw.Header, raw.Subject, raw.Sequence)
		if err != nil {
			r.Fatal(err)
		}
		if rec.Mark.Seq > 0 {
			all[rec.Mark.Seq] = rec.Mark.Digest.String()
		}
		seq = raw.Sequence
	}
}

// TestStateAsItWas: a past state equals the job's digest at every recorded position, from snapshots
// and from the log only, and after a replaced worker.
func TestStateAsItWas(t *testing.T) {
	for name, policy := range map[string]reservoir.Policy{
		"marked": {Kind: reservoir.Marked, Early: 3}, "window": {Kind: reservoir.Window, Length: 12, Hop: 4}, "endless": {Kind: reservoir.Endless, Early: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, pipelinetest.Timed(pipelinetest.Ranged(pipelinetest.Model(t, 3, policy))))
			packets, _ := pipelinetest.Mixed(pipelinetest.Recordings(6, 40), 3)
			packets = pipelinetest.Disorder(packets, rand.New(rand.NewPCG(1, 2)))
			stop := r.startStage()
			for i, p := range packets {
				if i == len(packets)/2 {
					r.waitUntilAnswered()
					stop()
					stop = r.startStage()
				}
				r.publishPackets(p)
				if i%3 == 0 {
					r.waitUntilAnswered()
				}
			}
			r.waitUntilAnswered()
			stop()
			verified, whole := 0, 0
			check := func() {
				for part := range r.conf.Partitions {
					for seq, digest := range r.recordDigests(part) {
						s, err := r.explainer().StateAsOf(t.Context(), replay.AsOf{Partition: part, To: seq})
						if err != nil || s.Digest != digest || !s.Verified || s.InSeq != seq {
							t.Fatalf("partition %d after %d: %+v, %v, want digest %s", part, seq, s.Past, err, digest)
						}
						verified++
						if s.Past.Snapshot == "" {
							whole++
						}
					}
				}
			}
			check()
			if verified < 10 || whole == verified {
				t.Errorf("%d states, %d of them from the log alone: the test has lost its subject", verified, whole)
			}
			if err := r.js.DeleteObjectStore(t.Context(), wire.SnapshotBucket(job)); err != nil {
				t.Fatal(err)
			}
			check()
		})
	}
}

// TestStateAsOfAStream: the prediction for an ended open sequence is the later prediction; times
// are the server's; impossible computations have a reason.
func TestStateAsOfAStream(t *testing.T) {
	r := newRig(t, pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked}))
	r.conf.Partitions = 1
	rng := rand.New(rand.NewPCG(1, 2))
	stop := r.startStage()
	for i := range 4 {
		r.publishPackets(pipelinetest.Rows("k", uint64(i+1), false, pipelinetest.Noise(rng, 6)...), pipelinetest.Rows("l", uint64(i+1), false, pipelinetest.Noise(rng, 2)...))
	}
	between := time.Now()
	time.Sleep(5 * time.Millisecond) // the server uses this clock
	end := pipelinetest.Rows("k", 5, true)
	end.Batch.X = []float32{}
	r.publishPackets(end, pipelinetest.Rows("l", 5, false, pipelinetest.Noise(rng, 2)...))
	r.waitUntilAnswered()
	stop()
	x := r.explainer()
	s, err := x.StateAsOf(t.Context(), replay.AsOf{Before: between})
	if err != nil || s.InSeq != 8 {
		t.Fatalf("before the end: %+v, %v", s, err)
	}
	open, err := x.OpenSequences(t.Context(), s.Encoded, "k")
	all := r.listOutputs()
	if err != nil || len(open) != 1 || len(all) != 1 || !pipelinetest.SameBits(open[0].Scores, all[0].p.Scores) || open[0].Samples != 12 {
		t.Errorf("open %+v, %v; predicted %+v", open, err, all)
	}
	later, err := x.StateAsOf(t.Context(), replay.AsOf{To: 10})
	if err != nil {
		t.Fatal(err)
	}
	if open, err := x.OpenSequences(t.Context(), later.Encoded, "k"); err != nil || len(open) != 0 {
		t.Errorf("behind the end: %+v, %v", open, err)
	}
	if st, err := admin.ReadState(later.Encoded); err != nil || len(st.Streams) != 2 || st.Streams[1].Samples != 5 || st.InSeq != 10 {
		t.Errorf("%+v, %v", st, err)
	}
	if s, err := x.StateAsOf(t.Context(), replay.AsOf{Before: time.Unix(0, 0)}); err != nil || s.InSeq != 0 || s.Verified {
		t.Errorf("before all: %+v, %v", s, err)
	}
	if _, err := x.StateAsOf(t.Context(), replay.AsOf{To: 11}); err == nil {
		t.Error("a state of the future")
	}
	if _, err := x.StateAsOf(t.Context(), replay.AsOf{To: 3, Partition: 5}); err == nil {
		t.Error("a state of no partition")
	}
	in, err := r.js.Stream(t.Context(), wire.InputStream(job))
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Purge(t.Context(), jetstream.WithPurgeSequence(5)); err != nil {
		t.Fatal(err)
	}
	if err := r.js.DeleteObjectStore(t.Context(), wire.SnapshotBucket(job)); err != nil {
		t.Fatal(err)
	}
	_, err = x.StateAsOf(t.Context(), replay.AsOf{To: 9})
	if !errors.Is(err, replay.ErrPastGone) {
		t.Errorf("without log and snapshot: %v", err)
	}
	pipelinetest.Mentions(t, err, "begins with message 5")
}
