package explain

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// numberedPacket is a message and its number in the log.
type numberedPacket struct {
	pipelinetest.Packet
	seq uint64
}

// publishNumbered publishes packets and returns their numbers.
func (r *rig) publishNumbered(packets []pipelinetest.Packet) (all []numberedPacket) {
	r.Helper()
	for _, p := range packets {
		ack, err := r.js.PublishMsg(r.Context(), &nats.Msg{Subject: "sensors." + p.Key, Header: p.Headers(), Data: p.Payload(r)})
		if err != nil {
			r.Fatal(err)
		}
		all = append(all, numberedPacket{p, ack.Sequence})
		r.sent++
	}
	return all
}

// expectedStream is the state of a stream after a message of the log, from its samples only.
type expectedStream struct {
	samples, begun, ended uint64
	open                  []float32 // samples of the open sequence
	opened                uint64    // message with its first sample
}

// expectedAfter follows end marks up to a message, as the policy marked does.
func expectedAfter(log []numberedPacket, stream string, to uint64) (s expectedStream) {
	for _, m := range log {
		if m.Key != stream || m.seq > to {
			continue
		}
		for i := range m.Batch.Rows {
			if len(s.open) == 0 {
				s.begun++
				s.opened = m.seq
			}
			s.samples++
			s.open = append(s.open, m.Batch.X[2*i:2*i+2]...)
			if m.Batch.Ends[i] {
				s.ended++
				s.open = nil
			}
		}
	}
	return s
}

// unitsOf returns h of all units after samples, from an engine's features "last".
func (r *rig) unitsOf(x []float32) (h []float32) {
	r.Helper()
	e, err := pipelinetest.Generic(r.model.Network, 1)
	if err != nil {
		r.Fatal(err)
	}
	defer e.Close()
	if err := e.Advance(x, []reservoir.Run{{Reset: true, To: int32(len(x) / 2)}}, nil); err != nil {
		r.Fatal(err)
	}
	spec := r.model.Network.Spec
	all := make([]float32, spec.FeatureCount())
	if err := e.Features(0, all); err != nil {
		r.Fatal(err)
	}
	for m := range spec.Members {
		h = append(h, all[m*spec.Units*len(spec.Features):][:spec.Units]...)
	}
	return h
}

// TestStatesBetween: the difference of two positions matches the samples between them: counts,
// norms of h, the readout of each open sequence, the most changed units; also after a promotion and
// a replaced worker.
func TestStatesBetween(t *testing.T) {
	m := pipelinetest.Bank(t, 2, 7, 3, reservoir.Policy{Kind: reservoir.Marked, Early: 3})
	next := *m.Readouts[0]
	next.Name, next.Weights = "next", pipelinetest.Noise(rand.New(rand.NewPCG(5, 6)), len(next.Weights))
	r := newRig(t, m)
	stop := r.startStage()
	streams := pipelinetest.Recordings(5, 40)
	packets, _ := pipelinetest.Mixed(streams, 3)
	log := r.publishNumbered(packets[:len(packets)/2])
	entry := r.promoteReadout(m, &next)
	r.waitUntilAnswered()
	stop()
	stop = r.startStage()
	behind := r.publishNumbered(packets[len(packets)/2:])
	log = append(log, behind...)
	r.waitUntilAnswered()
	stop()

	rng := rand.New(rand.NewPCG(3, 4))
	moved, promoted := 0, 0
	for range 6 {
		i, j := rng.IntN(len(log)), rng.IntN(len(log))
		from, to := log[min(i, j)].seq, log[max(i, j)].seq
		seen := map[string]bool{}
		for part := range r.conf.Partitions {
			d, err := r.explainer().StatesBetween(t.Context(), replay.AsOf{Partition: part, To: from}, replay.AsOf{To: to}, "", 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range d.Streams {
				if seen[s.Stream] {
					t.Fatalf("stream %s is there twice", s.Stream)
				}
				seen[s.Stream] = true
				before, after := expectedAfter(log, s.Stream, from), expectedAfter(log, s.Stream, to)
				if *s.Samples != after.samples-before.samples || *s.Begun != after.begun-before.begun || *s.Ended != after.ended-before.ended {
					t.Fatalf("%s between %d and %d: %d samples, %d begun, %d ended; want %+v less %+v", s.Stream, from, to, *s.Samples, *s.Begun, *s.Ended, after, before)
				}
				r.checkStream(s.From, before, entry.Fingerprint, behind[0].seq)
				promoted += r.checkStream(s.To, after, entry.Fingerprint, behind[0].seq)
				if (s.Difference != nil) != (before.open != nil && after.open != nil) {
					t.Fatalf("%s between %d and %d: difference %v", s.Stream, from, to, s.Difference)
				}
				if s.Difference != nil {
					moved++
					requireClose(t, *s.Difference, euclideanNorm(r.unitsOf(after.open), r.unitsOf(before.open)))
				}
			}
		}
		for _, s := range streams {
			if got := expectedAfter(log, s.Name, to).samples > expectedAfter(log, s.Name, from).samples; got != seen[s.Name] {
				t.Errorf("%s between %d and %d is listed: %v, got samples: %v", s.Name, from, to, seen[s.Name], got)
			}
		}
	}
	if moved < 3 || promoted < 3 {
		t.Errorf("%d differences, %d sequences of the promoted readout: the test has lost its subject", moved, promoted)
	}
	r.checkUnits(log)
}

// requireClose: both are sums of the same float32 differences in float64.
func requireClose(t *testing.T, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*want {
		t.Fatalf("norm %v, want %v", got, want)
	}
}

// checkStream compares a stream at a position with its samples.
func (r *rig) checkStream(s *StreamState, want expectedStream, promoted string, since uint64) (byPromoted int) {
	r.Helper()
	if s == nil {
		if want.samples > 0 {
			r.Fatalf("not known after %d samples", want.samples)
		}
		return 0
	}
	if len(want.open) == 0 {
		if len(s.States) != 0 {
			r.Fatalf("open: %+v", s.States)
		}
		return 0
	}
	if len(s.States) != 1 || s.States[0].Samples != uint64(len(want.open)/2) {
		r.Fatalf("states %+v, want one of %d samples", s.States, len(want.open)/2)
	}
	requireClose(r.T, s.States[0].Norm, euclideanNorm(r.unitsOf(want.open), nil))
	if by := want.opened >= since; by != (s.States[0].Readout == promoted) || s.States[0].Readout == "" {
		r.Fatalf("readout %s of a sequence that began with message %d; promoted before %d: %s", s.States[0].Readout, want.opened, since, promoted)
	} else if by {
		byPromoted = 1
	}
	return byPromoted
}

// checkUnits checks a stream's units, positions by time, and refused comparisons.
func (r *rig) checkUnits(log []numberedPacket) {
	r.Helper()
	stream, from, to := "", uint64(0), uint64(0)
	for i := range log { // a stream with an open sequence at two positions
		for j := i + 1; j < len(log) && stream == ""; j++ {
			if s := log[i].Key; log[j].Key == s && expectedAfter(log, s, log[i].seq).open != nil && expectedAfter(log, s, log[j].seq).open != nil {
				stream, from, to = s, log[i].seq, log[j].seq
			}
		}
	}
	part := -1
	for p := range r.conf.Partitions {
		d, err := r.explainer().StatesBetween(r.Context(), replay.AsOf{Partition: p, To: from}, replay.AsOf{To: to}, stream, 5)
		if err != nil {
			r.Fatal(err)
		}
		if len(d.Streams) == 0 {
			continue
		}
		part = p
		was, is := r.unitsOf(expectedAfter(log, stream, from).open), r.unitsOf(expectedAfter(log, stream, to).open)
		units := d.Streams[0].Units
		if len(d.Streams) != 1 || len(units) != 5 {
			r.Fatalf("%+v", d.Streams)
		}
		least := math.Inf(1)
		for _, u := range units {
			i := u.Member*r.model.Network.Spec.Units + u.Unit
			if u.From != was[i] || u.To != is[i] || math.Abs(u.Change()) > least {
				r.Fatalf("unit %+v, want from %v to %v, and no more than %v", u, was[i], is[i], least)
			}
			least = math.Abs(u.Change())
		}
		more := 0
		for i := range was {
			if math.Abs(float64(is[i])-float64(was[i])) > least {
				more++
			}
		}
		if more != 4 {
			r.Errorf("%d units have changed more than the fifth", more)
		}
	}
	last := log[len(log)-1].seq
	d, err := r.explainer().StatesBetween(r.Context(), replay.AsOf{Partition: part, Before: time.Unix(0, 0)}, replay.AsOf{To: last}, "", 0)
	if err != nil || d.From.InSeq != 0 || len(d.Streams) == 0 || d.Streams[0].From != nil || *d.Streams[0].Samples != 40 {
		r.Errorf("from the beginning: %+v, %v", d, err)
	}
	if _, err := r.explainer().StatesBetween(r.Context(), replay.AsOf{To: to}, replay.AsOf{To: from}, "", 0); err == nil {
		r.Error("places in the wrong order")
	}
	same, err := r.explainer().StatesBetween(r.Context(), replay.AsOf{Partition: part, To: to}, replay.AsOf{To: to}, "", 0)
	if err != nil || len(same.Streams) != 0 || same.Same == 0 {
		r.Errorf("one place twice: %+v, %v", same, err)
	}
}

// TestStatesBetweenWithoutTheLog: if the log has lost the messages between two positions, snapshots
// may have both: only samples and sequences are then not counted.
func TestStatesBetweenWithoutTheLog(t *testing.T) {
	r := newRig(t, pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Endless, Early: 2}))
	r.conf.Partitions, r.conf.SnapshotMessages = 1, 20
	rng := rand.New(rand.NewPCG(1, 2))
	stop := r.startStage()
	for i := range 45 {
		r.publishPackets(pipelinetest.Rows("k", uint64(i+1), false, pipelinetest.Noise(rng, 4)...))
		r.waitUntilAnswered() // one batch each, so that snapshots lie between
	}
	stop()
	x := r.explainer()
	newest, err := x.StateAsOf(t.Context(), replay.AsOf{To: 45})
	if err != nil {
		t.Fatal(err)
	}
	before, err := x.StateAsOf(t.Context(), replay.AsOf{To: newest.Past.After - 1})
	if err != nil || before.Past.Snapshot == "" {
		t.Fatalf("before the newest snapshot, %s: %+v, %v", newest.Past.Snapshot, before.Past, err)
	}
	in, err := r.js.Stream(t.Context(), wire.InputStream(job))
	if err != nil {
		t.Fatal(err)
	}
	from := before.Past.After
	if err := in.Purge(t.Context(), jetstream.WithPurgeSequence(from+2)); err != nil {
		t.Fatal(err)
	}
	d, err := x.StatesBetween(t.Context(), replay.AsOf{To: from}, replay.AsOf{To: 45}, "", 0)
	if err != nil || d.Uncounted == "" || len(d.Streams) != 1 || d.Streams[0].Samples != nil || d.Streams[0].Difference == nil || !d.From.Verified {
		t.Errorf("%+v, %v", d, err)
	}
	_, err = x.StatesBetween(t.Context(), replay.AsOf{To: from + 1}, replay.AsOf{To: 45}, "", 0)
	if !errors.Is(err, replay.ErrPastGone) {
		t.Errorf("a place that is gone: %v", err)
	}
}
