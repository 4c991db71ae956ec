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

// numbered is a message and its place in the log.
type numbered struct {
	pipelinetest.Packet
	seq uint64
}

// send publishes packets and notes their places.
func (r *rig) send(packets []pipelinetest.Packet) (all []numbered) {
	r.Helper()
	for _, p := range packets {
		ack, err := r.js.PublishMsg(r.Context(), &nats.Msg{Subject: "sensors." + p.Key, Header: p.Headers(), Data: p.Payload(r)})
		if err != nil {
			r.Fatal(err)
		}
		all = append(all, numbered{p, ack.Sequence})
		r.sent++
	}
	return all
}

// told is what a stream is after a message of the log, by its samples alone.
type told struct {
	samples, begun, ended uint64
	open                  []float32 // samples of the open sequence
	opened                uint64    // the message with the first of them
}

// toldOf follows end marks, as the policy marked does, up to a message.
func toldOf(log []numbered, stream string, to uint64) (s told) {
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

// unitsOf are h of all units after samples, from an engine's features "last".
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

// What the states of two places differ in is what the samples between them say: counts,
// norms of h, the readout of each open sequence, the units that changed most; after a
// promotion and a worker that was replaced.
func TestStatesBetween(t *testing.T) {
	m := pipelinetest.Bank(t, 2, 7, 3, reservoir.Policy{Kind: reservoir.Marked, Early: 3})
	next := *m.Readouts[0]
	next.Name, next.Weights = "next", pipelinetest.Noise(rand.New(rand.NewPCG(5, 6)), len(next.Weights))
	r := newRig(t, m)
	stop := r.stage()
	streams := pipelinetest.Recordings(5, 40)
	packets, _ := pipelinetest.Mixed(streams, 3)
	log := r.send(packets[:len(packets)/2])
	entry := r.promote(m, &next)
	r.settled()
	stop()
	stop = r.stage()
	behind := r.send(packets[len(packets)/2:])
	log = append(log, behind...)
	r.settled()
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
				before, after := toldOf(log, s.Stream, from), toldOf(log, s.Stream, to)
				if *s.Samples != after.samples-before.samples || *s.Begun != after.begun-before.begun || *s.Ended != after.ended-before.ended {
					t.Fatalf("%s between %d and %d: %d samples, %d begun, %d ended; want %+v less %+v", s.Stream, from, to, *s.Samples, *s.Begun, *s.Ended, after, before)
				}
				r.stands(s.From, before, entry.Fingerprint, behind[0].seq)
				promoted += r.stands(s.To, after, entry.Fingerprint, behind[0].seq)
				if (s.Difference != nil) != (before.open != nil && after.open != nil) {
					t.Fatalf("%s between %d and %d: difference %v", s.Stream, from, to, s.Difference)
				}
				if s.Difference != nil {
					moved++
					near(t, *s.Difference, norm(r.unitsOf(after.open), r.unitsOf(before.open)))
				}
			}
		}
		for _, s := range streams {
			if got := toldOf(log, s.Name, to).samples > toldOf(log, s.Name, from).samples; got != seen[s.Name] {
				t.Errorf("%s between %d and %d is listed: %v, got samples: %v", s.Name, from, to, seen[s.Name], got)
			}
		}
	}
	if moved < 3 || promoted < 3 {
		t.Errorf("%d differences, %d sequences of the promoted readout: the test has lost its subject", moved, promoted)
	}
	r.oneStream(log)
}

// near: both are sums of the same float32 differences in float64.
func near(t *testing.T, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*want {
		t.Fatalf("norm %v, want %v", got, want)
	}
}

// stands compares a stream in a place with what its samples say.
func (r *rig) stands(s *StreamAt, want told, promoted string, since uint64) (byPromoted int) {
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
	near(r.T, s.States[0].Norm, norm(r.unitsOf(want.open), nil))
	if by := want.opened >= since; by != (s.States[0].Readout == promoted) || s.States[0].Readout == "" {
		r.Fatalf("readout %s of a sequence that began with message %d; promoted before %d: %s", s.States[0].Readout, want.opened, since, promoted)
	} else if by {
		byPromoted = 1
	}
	return byPromoted
}

// oneStream looks at a stream's units, at times, and at what cannot be compared.
func (r *rig) oneStream(log []numbered) {
	r.Helper()
	stream, from, to := "", uint64(0), uint64(0)
	for i := range log { // a stream that has an open sequence in two places
		for j := i + 1; j < len(log) && stream == ""; j++ {
			if s := log[i].Key; log[j].Key == s && toldOf(log, s, log[i].seq).open != nil && toldOf(log, s, log[j].seq).open != nil {
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
		was, is := r.unitsOf(toldOf(log, stream, from).open), r.unitsOf(toldOf(log, stream, to).open)
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

// Where the log has lost what lies between two places, snapshots may have both: then
// only samples and sequences are not counted.
func TestStatesBetweenWithoutTheLog(t *testing.T) {
	r := newRig(t, pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Endless, Early: 2}))
	r.conf.Partitions, r.conf.SnapshotMessages = 1, 20
	rng := rand.New(rand.NewPCG(1, 2))
	stop := r.stage()
	for i := range 45 {
		r.publish(pipelinetest.Rows("k", uint64(i+1), false, pipelinetest.Noise(rng, 4)...))
		r.settled() // a batch each, so that snapshots are between
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
