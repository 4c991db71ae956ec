package explain

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/registry"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

const job = "told"

// rig is a server with a job.
type rig struct {
	*testing.T
	js    jetstream.JetStream
	srv   *natsserver.Server
	model *reservoir.Model
	conf  pipeline.Config

	counters *pipeline.Counters // of the last stage
	sent     int                // messages since its start
}

func newRig(t *testing.T, m *reservoir.Model) *rig {
	t.Helper()
	srv := pipelinetest.Server(t, natsserver.Options{Dir: t.TempDir()})
	_, js := pipelinetest.Connect(t, srv)
	c := pipeline.Config{Job: job, Partitions: 3, Lease: 600 * time.Millisecond, SnapshotMessages: 7, StopTimeout: 300 * time.Millisecond}
	return &rig{T: t, js: js, srv: srv, model: m, conf: c}
}

// startStage starts a worker; stop ends it.
func (r *rig) startStage() (stop func()) {
	r.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	r.counters, r.sent = new(pipeline.Counters), 0
	s := &pipeline.Worker{
		Job: pipeline.Job{Config: r.conf, Model: r.model, ModelName: "m.safetensors", NewEngine: pipelinetest.Generic, Log: pipelinetest.Log(r),
			Dial: func(_ context.Context, name string) (*nats.Conn, error) {
				return r.srv.Connect(name, pipelinetest.Log(r))
			},
		},
		Counters: r.counters,
		Ready:    func() { close(ready) },
	}
	go func() { done <- s.Run(ctx) }()
	r.Cleanup(cancel)
	select {
	case <-ready:
	case err := <-done:
		r.Fatalf("the stage did not start: %v", err)
	}
	return func() {
		r.Helper()
		cancel()
		if err := <-done; err != nil {
			r.Fatalf("the stage ended with %v", err)
		}
	}
}

func (r *rig) publishPackets(packets ...pipelinetest.Packet) {
	r.Helper()
	r.sent += len(packets)
	for _, p := range packets {
		if _, err := r.js.PublishMsg(r.Context(), &nats.Msg{Subject: "sensors." + p.Key, Header: p.Headers(), Data: p.Payload(r)}); err != nil {
			r.Fatal(err)
		}
	}
}

// outputPlace is a prediction in the output.
type outputPlace struct {
	output uint64
	number uint64
	p      codec.Prediction
	part   int
	outs   uint64 // number in the partition
}

// listOutputs returns all predictions, in order.
func (r *rig) listOutputs() (all []outputPlace) {
	r.Helper()
	err := consumer.Read(r.Context(), r.js, job, consumer.Span{From: 1, Stored: true}, func(o consumer.Output) error {
		for i, p := range o.Predictions {
			all = append(all, outputPlace{o.Seq, uint64(i + 1), p, o.Partition, o.Outs - uint64(len(o.Predictions)-1-i)})
		}
		return nil
	})
	if err != nil {
		r.Fatal(err)
	}
	return all
}

// promoteReadout promotes another readout of a model, as anna's entry and by berta's promotion, and
// waits until every partition has changed over.
func (r *rig) promoteReadout(m *reservoir.Model, next *readout.Linear) registry.Entry {
	r.Helper()
	other := *m
	other.Readouts = append(slices.Clone(m.Readouts), next)
	models, err := registry.Open(r.Context(), r.js, job)
	if err != nil {
		r.Fatal(err)
	}
	entry, _, err := models.Publish(r.Context(), &other, "other.safetensors", "next", registry.Lineage{Who: "anna", When: registry.Now()})
	if err != nil {
		r.Fatal(err)
	}
	if _, err := operate.Promote(r.Context(), r.js, job, operate.PromoteOptions{Readout: entry.Fingerprint, Who: "berta"}); err != nil {
		r.Fatal(err)
	}
	pipelinetest.Until(r, "the promotion is taken", func() bool {
		all, err := operate.PromotionsOf(r.Context(), r.js, job)
		return err == nil && all.Complete()
	})
	return entry
}

// waitUntilAnswered waits until the running stage has answered all messages since its start.
func (r *rig) waitUntilAnswered() {
	r.Helper()
	pipelinetest.Until(r, "all input answered", func() bool {
		s := r.counters.Stats()
		return int(s.Messages+s.Duplicates+s.DeadLetters) >= r.sent && s.Lag == 0
	})
}

// explain explains a prediction with the model of the registry.
func (r *rig) explain(a Query) *Explanation {
	r.Helper()
	f, err := Find(r.Context(), r.js, job, a)
	if err != nil {
		r.Fatalf("%+v: %v", a, err)
	}
	x := &Explainer{JS: r.js, Job: pipeline.Job{Config: r.conf, NewEngine: pipelinetest.Generic, Log: pipelinetest.Log(r)}, Features: 3}
	e, err := x.Explain(r.Context(), f)
	if err != nil {
		r.Fatalf("%+v: %v", a, err)
	}
	return e
}

// checkExact compares an explanation with its prediction: the same bits, from the same samples, and
// parts with the correct sum.
func (r *rig) checkExact(e *Explanation, at outputPlace) {
	r.Helper()
	p := &at.p
	if e.Prediction.Stream != p.Stream || e.Commit.Output != at.output || e.Commit.Number != at.outs {
		r.Errorf("prediction %+v of output %d is explained as %+v in %+v", p, at.output, e.Prediction, e.Commit)
	}
	if !e.Again.Found || !e.Again.Same || e.Again.OtherFlags || e.Again.OtherReadout || e.Again.Broken || e.Again.Why != "" {
		r.Fatalf("output %d, prediction %d (%+v): computed again: %+v", at.output, at.number, p, e.Again)
	}
	if !pipelinetest.SameBits(e.Again.Scores, p.Scores) || e.Again.Class != e.Prediction.Class {
		r.Errorf("scores %v, want %v", e.Again.Scores, p.Scores)
	}
	s, n := e.Samples, int64(0)
	for _, i := range s.Inputs {
		n += int64(i.Samples)
	}
	if !s.Whole || s.Missing || n != s.Count || s.By == 0 {
		r.Errorf("samples %+v: %d of them in messages", s, n)
	}
	r.checkInputs(s, p)
	if r.model.Readouts[0].Segments != nil { // no member of the network has a share
		r.checkSegments(e)
		return
	}
	r.checkSums(e)
	if len(e.Held) != len(r.model.Channels) {
		r.Errorf("%d channels held, %q", len(e.Held), e.HeldWhy)
	}
}

// checkSegments compares the sums of channels and of segments with the score, except for rounding.
func (r *rig) checkSegments(e *Explanation) {
	r.Helper()
	s := e.Segments
	if s == nil || e.Score != nil || len(s.Channels) != len(r.model.Channels) || len(s.Segments) != r.model.Front.Segments.Count {
		r.Fatalf("segments %+v, score %+v", s, e.Score)
	}
	if d := math.Abs(s.Sum.Difference - s.Score.Difference); d > s.Rounding || s.Class != e.Prediction.Class {
		r.Errorf("%+v: class %s, difference %v", s, e.Prediction.Class, d)
	}
	for what, all := range map[string][]Share{"channels": s.Channels, "segments": s.Segments} {
		sum := s.Bias
		for _, share := range all {
			sum.addScores(share.Class, share.RunnerUp)
			if share.Features*len(all) != r.model.Readouts[0].Segments.Statistics() {
				r.Errorf("%s: %+v", what, share)
			}
		}
		if d := math.Abs(sum.Difference - s.Sum.Difference); d > 1e-9 { // the same float64 terms in another order
			r.Errorf("%s: %v, want %v", what, sum, s.Sum)
		}
	}
	if got := s.Segments[1].What; got != "samples 5 to 8" {
		r.Errorf("the second segment is %q", got)
	}
}

// checkInputs checks that the messages of a sequence are the stream's, in order, and end with the
// prediction's sample.
func (r *rig) checkInputs(s *Samples, p *codec.Prediction) {
	r.Helper()
	in, err := r.js.Stream(r.Context(), wire.InputStream(job))
	if err != nil {
		r.Fatal(err)
	}
	var seq uint64
	for _, i := range s.Inputs {
		m, err := in.GetMsg(r.Context(), i.Message)
		if err != nil {
			r.Fatal(err)
		}
		n, _ := strconv.ParseUint(m.Header.Get(wire.HeaderSeq), 10, 64)
		if wire.KeyOf(m.Subject) != p.Stream || n < seq || n > seq+1 && seq > 0 {
			r.Errorf("message %d on %s with number %d, after number %d of stream %s", i.Message, m.Subject, n, seq, p.Stream)
		}
		seq = n
	}
	if last := s.Inputs[len(s.Inputs)-1]; seq != p.Seq || last.Row+last.Samples-1 != p.Row {
		r.Errorf("the last message has number %d, %+v, the prediction ends with %d, row %d", seq, last, p.Seq, p.Row)
	}
}

// checkSums checks that every view of the features has the same sum, which equals the score except
// for rounding.
func (r *rig) checkSums(e *Explanation) {
	r.Helper()
	s := e.Score
	if d := math.Abs(s.Sum.Difference - s.Score.Difference); d > s.Rounding || d > 1e-4 {
		r.Errorf("bias and contributions are %v, the scores' difference %v; rounding allows %v", s.Sum, s.Score, s.Rounding)
	}
	var members Part
	for _, m := range s.Members {
		members.addScores(m.Class, m.RunnerUp)
	}
	for what, all := range map[string][]Share{"kinds": s.Kinds, "channels": s.Channels, "members": {{Part: members, Features: s.Of}}} {
		var sum Part
		features := 0
		for _, share := range all {
			sum.addScores(share.Class, share.RunnerUp)
			features += share.Features
		}
		// The same float64 terms in another order.
		if math.Abs(sum.Class-s.Features.Class) > 1e-9 || math.Abs(sum.RunnerUp-s.Features.RunnerUp) > 1e-9 || features != s.Of {
			r.Errorf("%s: %v of %d features, want %v of %d", what, sum, features, s.Features, s.Of)
		}
	}
	if len(s.Strong) != 3 || math.Abs(s.Strong[0].Difference) < math.Abs(s.Strong[2].Difference) {
		r.Errorf("strongest features %+v", s.Strong)
	}
}

// TestExplainsEveryPolicy: every prediction of a job is recomputed with the same bits, under each
// policy, with repeated and reordered messages and a worker that stops in between, and its parts
// have the correct sum.
func TestExplainsEveryPolicy(t *testing.T) {
	for name, c := range map[string]struct {
		policy  reservoir.Policy
		classes int
		fronted bool
	}{
		"marked":       {reservoir.Policy{Kind: reservoir.Marked, Early: 3}, 3, false},
		"window":       {reservoir.Policy{Kind: reservoir.Window, Length: 12, Hop: 4}, 3, false},
		"count":        {reservoir.Policy{Kind: reservoir.Count, Length: 7}, 2, false},
		"gap":          {reservoir.Policy{Kind: reservoir.Gap, Gap: 5 * time.Millisecond}, 3, false},
		"endless":      {reservoir.Policy{Kind: reservoir.Endless, Early: 9}, 2, false},
		"decided":      {reservoir.Policy{Kind: reservoir.Marked, Early: 5}, 3, false},
		"segments":     {reservoir.Policy{Kind: reservoir.Count, Length: 8}, 3, false},
		"window front": {reservoir.Policy{Kind: reservoir.Window, Length: 12, Hop: 4}, 3, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := pipelinetest.Ranged(pipelinetest.Bank(t, 2, 7, c.classes, c.policy))
			if c.fronted {
				m = pipelinetest.Fronted(m)
			}
			if name == "decided" {
				pipelinetest.Deciding(m.Readouts[0])
			}
			if name == "segments" {
				pipelinetest.Segmented(m)
			}
			r := newRig(t, m)
			packets, _ := pipelinetest.Mixed(pipelinetest.Recordings(4, 40), 3)
			packets = pipelinetest.Disorder(packets, rand.New(rand.NewPCG(1, 2)))
			stop := r.startStage()
			r.publishPackets(packets[:len(packets)/2]...)
			r.waitUntilAnswered()
			stop()
			stop = r.startStage()
			r.publishPackets(packets[len(packets)/2:]...)
			r.waitUntilAnswered()
			all := r.listOutputs()
			if len(all) < 8 {
				t.Fatalf("%d predictions are too few", len(all))
			}
			for _, at := range all { // the stage runs
				r.checkExact(r.explain(Query{Output: at.output, Number: at.number}), at)
			}
			last := all[len(all)-1]
			r.checkExact(r.explain(Query{Stream: last.p.Stream}), last)
			r.checkExact(r.explain(Query{Partition: last.part, Number: last.outs}), last)
			for _, at := range all {
				newest := at
				for _, other := range all {
					if o := other.p; o.Stream == at.p.Stream && o.Seq == at.p.Seq && o.Row == at.p.Row {
						newest = other
					}
				}
				f, err := Find(t.Context(), r.js, job, Query{Stream: at.p.Stream, Seq: &at.p.Seq, Row: &at.p.Row})
				if err != nil || f.Output != newest.output || f.Index != int(newest.number)-1 || f.Prediction.Class != newest.p.Class {
					t.Fatalf("%+v is found as %+v, %v", at, f, err)
				}
				if f, err = Find(t.Context(), r.js, job, Query{Partition: at.part, Number: at.outs}); err != nil || f.Output != at.output || f.Index != int(at.number)-1 {
					t.Fatalf("%+v is found by its number as %+v, %v", at, f, err)
				}
			}
			stop()
		})
	}
}

// TestExplainsWithoutNumbers: producers without numbers and times give predictions that differ only
// in their order.
func TestExplainsWithoutNumbers(t *testing.T) {
	r := newRig(t, pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Count, Length: 2}))
	rng := rand.New(rand.NewPCG(1, 2))
	stop := r.startStage()
	stop() // the input exists: one batch has many messages
	for range 60 {
		r.publishPackets(pipelinetest.Rows("k", 0, false, pipelinetest.Noise(rng, 2)...))
	}
	sent := r.sent
	stop = r.startStage()
	r.sent = sent
	r.waitUntilAnswered()
	stop()
	all := r.listOutputs()
	together := 0
	for _, at := range all {
		together = max(together, int(at.number))
		r.checkExact(r.explain(Query{Output: at.output, Number: at.number}), at)
	}
	if len(all) != 30 || together < 3 {
		t.Fatalf("%d predictions, %d in one message: the test has lost its subject", len(all), together)
	}
}

// TestExplainsPromotions: predictions before and after a promotion are explained with their own
// readouts.
func TestExplainsPromotions(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Count, Length: 4})
	next := *m.Readouts[0]
	next.Name, next.Weights = "next", pipelinetest.Noise(rand.New(rand.NewPCG(5, 6)), len(next.Weights))
	r := newRig(t, m)
	stop := r.startStage()
	packets, _ := pipelinetest.Mixed(pipelinetest.Recordings(4, 40), 3)
	half := len(packets) / 2
	r.publishPackets(packets[:half]...)
	entry := r.promoteReadout(m, &next)
	r.publishPackets(packets[half:]...)
	r.waitUntilAnswered()
	stop()
	used := map[string]int{}
	for _, at := range r.listOutputs() {
		e := r.explain(Query{Output: at.output, Number: at.number})
		r.checkExact(e, at)
		used[e.Readout.Fingerprint]++
		if by := e.Readout.Fingerprint == entry.Fingerprint; by == e.Readout.First || by != (e.Readout.Promotion != nil) || e.Readout.Entry == nil || by && (e.Readout.Promotion.Who != "berta" || e.Readout.Entry.Who != "anna" || e.Readout.Model != "other.safetensors") {
			t.Fatalf("readout %+v", e.Readout)
		}
	}
	if len(used) != 2 || used[entry.Fingerprint] < 3 {
		t.Errorf("readouts %v", used)
	}
}

// TestExplainsWithLostInput: a snapshot replaces lost messages of the log; without a snapshot, the
// explanation names the log's first message.
func TestExplainsWithLostInput(t *testing.T) {
	r := newRig(t, pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Endless, Early: 2}))
	r.conf.Partitions, r.conf.SnapshotMessages = 1, 20
	rng := rand.New(rand.NewPCG(1, 2))
	stop := r.startStage()
	for i := range 45 {
		r.publishPackets(pipelinetest.Rows("k", uint64(i+1), false, pipelinetest.Noise(rng, 4)...))
		r.waitUntilAnswered() // one batch each, so that snapshots lie between
	}
	all := r.listOutputs()
	first, last := all[0], all[len(all)-1]
	in, err := r.js.Stream(t.Context(), wire.InputStream(job))
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Purge(t.Context(), jetstream.WithPurgeSequence(21)); err != nil {
		t.Fatal(err)
	}
	e := r.explain(Query{Output: last.output, Number: last.number})
	if !e.Again.Same || e.Again.Snapshot == "" || e.Again.After < 20 || e.Again.Begins != 21 || e.Samples.Whole || !e.Samples.Missing || e.Samples.Count != 90 || !strings.Contains(e.HeldWhy, "began before") {
		t.Errorf("with a snapshot: %+v, samples %+v, %q", e.Again, e.Samples, e.HeldWhy)
	}
	r.checkSums(e)
	e = r.explain(Query{Output: first.output, Number: first.number})
	if e.Again.Found || !strings.Contains(e.Again.Why, "begins with message 21") || e.Score != nil || e.Prediction.Class == "" || e.Commit.Worker == "" {
		t.Errorf("before all that there is: %+v", e)
	}
	stop()
	if err := r.js.DeleteObjectStore(t.Context(), wire.SnapshotBucket(job)); err != nil {
		t.Fatal(err)
	}
	e = r.explain(Query{Output: last.output, Number: last.number})
	if e.Again.Same || e.Again.Broken || !strings.Contains(e.Again.Why, "begins with message 21") || !strings.Contains(e.Again.Why, "no snapshot") {
		t.Errorf("without a snapshot: %+v", e.Again)
	}
}

// TestFindsNothing: a query without a result is an error that describes the existing range.
func TestFindsNothing(t *testing.T) {
	r := newRig(t, pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked}))
	if _, err := Find(t.Context(), r.js, job, Query{Stream: "k"}); err == nil {
		t.Error("a prediction of no job")
	}
	stop := r.startStage()
	for i := range 5 {
		r.publishPackets(pipelinetest.One("k", uint64(i+1), 2, .5, true), pipelinetest.One("l", uint64(i+1), 2, .5, true))
	}
	r.waitUntilAnswered()
	stop()
	all := r.listOutputs()
	no, row := uint64(99), uint32(7)
	for _, a := range []Query{
		{Stream: "m"}, {Stream: "k", Seq: &no}, {Stream: "k", Seq: &all[0].p.Seq, Row: &row},
		{Output: 1 << 40}, {Output: all[0].output, Number: 99}, {Partition: 3, Number: 1}, {Partition: -1, Number: 1},
		{Partition: all[0].part, Number: 99}, {Partition: all[0].part},
	} {
		if f, err := Find(t.Context(), r.js, job, a); !errors.Is(err, ErrNotFound) {
			t.Errorf("%+v: %+v, %v", a, f, err)
		}
	}
	claims := 0
	out, err := r.js.Stream(t.Context(), wire.OutputStream(job))
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= out.CachedInfo().State.LastSeq; seq++ { // other messages give an error of their own
		if _, err := Find(t.Context(), r.js, job, Query{Output: seq, Number: 1}); errors.Is(err, ErrNotFound) {
			claims++
		} else if err != nil {
			t.Errorf("message %d: %v", seq, err)
		}
	}
	if claims == 0 {
		t.Error("no claim and no entry in the output")
	}
}
