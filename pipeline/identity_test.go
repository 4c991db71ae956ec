package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// twoModels returns a model, a model of another network with the same shape, and a
// model of the same network with another readout.
func twoModels(t *testing.T) (m, network, retrained *reservoir.Model) {
	t.Helper()
	policy := reservoir.Policy{Kind: reservoir.Marked, Early: 3}
	m, network, retrained = pipelinetest.Model(t, 3, policy), pipelinetest.Bank(t, 1, 8, 3, policy), pipelinetest.Model(t, 3, policy)
	retrained.Readouts[0].Weights[0]++
	return m, network, retrained
}

// refusedFor runs a stage that must end immediately because of another model, before it
// is listed or has claimed anything.
func (b *rig) refusedFor(t *testing.T, m *reservoir.Model, c pipeline.Config, words ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	counters := new(pipeline.Counters)
	err := (&pipeline.Worker{Job: pipeline.Job{Config: c, Model: m, ModelName: "other-model", NewEngine: pipelinetest.Generic, Dial: b.dialServer, Log: b.log}, Counters: counters}).Run(ctx)
	if !errors.Is(err, pipeline.ErrOtherModel) {
		t.Fatalf("run ended with %v, want %v", err, pipeline.ErrOtherModel)
	}
	mentions(t, err, append(words, "another job name")...)
	if n := counters.Counts().Claims.Load(); n > 0 {
		t.Errorf("%d partitions were claimed", n)
	}
	s, err := b.js.Stream(t.Context(), wire.MemberStream(c.Job))
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	if err != nil {
		t.Fatal(err)
	}
	id, err := readoutOf(m, m.Readouts[0])
	if err != nil {
		t.Fatal(err)
	}
	for subject := range info.State.Subjects {
		if strings.HasSuffix(subject, id[:wire.NameDigits]) {
			t.Errorf("%s is among the workers", subject)
		}
	}
}

// A worker with another network is refused, and so is a worker with another readout if
// the job has no registry: while the job's own worker lives, after it was killed and
// after a release; the own worker is not disturbed.
func TestOtherModelIsRefused(t *testing.T) {
	m, network, retrained := twoModels(t)
	streams := pipelinetest.Recordings(8, 40)
	packets, sent := pipelinetest.Mixed(streams, 3)
	want := direct(t, m, streams, sent)
	b := newRig(t)
	c := quickConfig("one", 4)
	refused := func() {
		t.Helper()
		b.refusedFor(t, network, c, "network", `job "one"`, "test-model", "other-model")
		b.forgetRegistry(c.Job)
		b.refusedFor(t, retrained, c, "readout", `job "one"`, "test-model", "other-model", "publish the job's model")
	}
	third := len(packets) / 3
	r := b.startStage(m, c)
	refused()
	b.publishPackets(packets[:third])
	b.settleMessages(r, third)
	before := r.counters.Stats()
	refused()
	if s := r.counters.Stats(); s.Claims != before.Claims || s.Fenced != 0 || s.Owned != 4 {
		t.Errorf("the job's worker lost partitions: %+v", s)
	}
	r.crashStage(t)
	refused()
	b.expireMembers("one")
	r = b.startStage(m, c)
	b.publishPackets(packets[third : 2*third])
	b.settleMessages(r, 2*third)
	r.stopStage(t)
	refused()
	b.refusedFor(t, pipelinetest.Fronted(pipelinetest.Model(t, 3, m.Policy)), c, "network", "front end", `job "one"`)
	r = b.startStage(m, c)
	b.publishPackets(packets[2*third:])
	got := b.awaitPredictions("one", count(want))
	r.stopStage(t)
	same(t, got, want)
}

// The job's entry and all records are purged while its worker lives: the worker's name
// still identifies the model. If only the entry is gone, records do.
func TestOtherModelIsRefusedWithoutEntry(t *testing.T) {
	m, network, retrained := twoModels(t)
	b := newRig(t)
	c := quickConfig("bare", 2)
	r := b.startStage(m, c)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", 1, 6, 1, true), pipelinetest.One("b", 1, 6, 1, true)})
	b.settleMessages(r, 2)
	out, err := b.js.Stream(t.Context(), wire.OutputStream("bare"))
	if err != nil {
		t.Fatal(err)
	}
	if err := out.Purge(t.Context(), jetstream.WithPurgeSubject(wire.EntrySubject("bare"))); err != nil {
		t.Fatal(err)
	}
	b.refusedFor(t, network, c, "network", "worker ")
	b.refusedFor(t, retrained, c, "readout", "worker ")
	r.crashStage(t)
	b.expireMembers("bare")
	b.refusedFor(t, network, c, "network", "test-model")
	b.refusedFor(t, retrained, c, "readout", "test-model")
	if _, seq, _ := store.ReadEntry(t.Context(), out, "bare"); seq != 0 {
		t.Error("a worker that was refused has written the entry")
	}
	b.startStage(m, c).stopStage(t)
	if e, seq, err := store.ReadEntry(t.Context(), out, "bare"); seq == 0 || e.Readout == "" {
		t.Errorf("entry %+v, %v: want the job's", e, err)
	}
}

// raceWorkers starts a worker of each model at the same time, waits until each has begun or
// was refused, and stops them.
func (b *rig) raceWorkers(t *testing.T, c pipeline.Config, models ...*reservoir.Model) (began map[*reservoir.Model]int, refused int) {
	t.Helper()
	var mu sync.Mutex
	var ends sync.WaitGroup
	began = map[*reservoir.Model]int{}
	ctx, cancel := context.WithCancel(t.Context())
	defer ends.Wait()
	defer cancel()
	decided := make(chan struct{}, 2*len(models))
	for _, model := range models {
		ends.Go(func() {
			s := &pipeline.Worker{
				Job: pipeline.Job{Config: c, Model: model, NewEngine: pipelinetest.Generic, Dial: b.dialServer, Log: b.log},
				Ready: func() {
					mu.Lock()
					defer mu.Unlock()
					began[model]++
					decided <- struct{}{}
				},
			}
			err := s.Run(ctx)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, pipeline.ErrOtherModel):
				refused++
				decided <- struct{}{}
			case err != nil:
				t.Error(err)
				decided <- struct{}{}
			}
		})
	}
	for range models {
		select {
		case <-decided:
		case <-time.After(patience):
			t.Fatal("a worker neither begins nor is refused")
		}
	}
	mu.Lock()
	defer mu.Unlock()
	return began, refused
}

// Among simultaneous first workers with different models, a single worker decides:
// workers with another network are refused, workers with another readout follow.
func TestModelsRaceForANewJob(t *testing.T) {
	m, network, retrained := twoModels(t)
	b := newRig(t)
	for round := range 4 {
		c := quickConfig(fmt.Sprint("race", round), 4) // one for each remaining worker
		c.InputSubject = c.Job + ".*"
		began, refused := b.raceWorkers(t, c, m, network, retrained, m, network, retrained)
		if n := began[network]; n != 0 && (n != 2 || len(began) != 1 || refused != 4) || n == 0 && (began[m] != 2 || began[retrained] != 2 || refused != 2) {
			t.Errorf("round %d: began %d, %d of another network, %d of another readout; %d were refused", round, began[m], n, began[retrained], refused)
		}
	}
}

// A worker killed after writing the job's entry, before any claim, leaves a job with
// its model.
func TestKilledBetweenEntryAndClaim(t *testing.T) {
	m, network, retrained := twoModels(t)
	b := newRig(t)
	c := quickConfig("begun", 2)
	b.startUp(c)
	out, err := b.js.Stream(t.Context(), wire.OutputStream(c.Job))
	if err != nil {
		t.Fatal(err)
	}
	sh, err := state.ShapeOf(m, "")
	if err != nil {
		t.Fatal(err)
	}
	killed := wire.Entry{Identity: sh.Identity(), Worker: "killed", Meta: codec.PredictionMeta{Model: "first-model", SHA256: "0123456789abcdef", Readout: "test"}}
	if killed.Readout, err = readoutOf(m, m.Readouts[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := store.WriteEntry(t.Context(), b.js, out, &killed, c.Job, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := store.WriteEntry(t.Context(), b.js, out, &killed, c.Job, 0); !store.OvertakenBy(err) {
		t.Errorf("a second entry was written (%v)", err)
	}
	if began, refused := b.raceWorkers(t, c, network, m, retrained); began[m] != 1 || refused != 2 {
		t.Errorf("%d workers of the job's model began, %d of others were refused, want 1 and 2", began[m], refused)
	}
	if _, seq, err := store.ReadEntry(t.Context(), out, c.Job); seq != 1 || err != nil {
		t.Errorf("the entry is message %d (%v), want the first", seq, err)
	}
}

// silent loses the answer to the next publish to a subject, after another process' turn.
type silent struct {
	jetstream.JetStream
	subject string
	then    func()
	answers bool // the answer is not lost
}

func (s *silent) PublishMsg(ctx context.Context, m *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	ack, err := s.JetStream.PublishMsg(ctx, m, opts...)
	if err != nil || m.Subject != s.subject {
		return ack, err
	}
	s.then()
	if s.answers {
		return ack, nil
	}
	return nil, nats.ErrTimeout
}

// A change of a job that the server has stored is never reported as not stored: with a lost
// answer, and when another process changes the job right after it.
func TestStoredChange(t *testing.T) {
	m, _, _ := twoModels(t)
	b := newRig(t)
	c := quickConfig("answers", 1)
	r := b.startStage(m, c)
	defer r.stopStage(t)
	other := m.Readouts[0]
	promote := func(answers, overtaken bool) error {
		t.Helper()
		changed := *other
		changed.Intercept = slices.Clone(other.Intercept)
		changed.Intercept[0]++
		other = &changed
		fingerprint := b.publishReadout(c.Job, withReadout(m, other), other.Name)
		s := &silent{JetStream: b.js, subject: wire.EntrySubject(c.Job), answers: answers, then: func() {
			if !overtaken {
				return
			}
			if _, err := operate.Promote(t.Context(), b.js, c.Job, operate.PromoteOptions{Who: "berta"}); err != nil { // back
				t.Error(err)
			}
		}}
		_, err := operate.Promote(t.Context(), s, c.Job, operate.PromoteOptions{Readout: fingerprint, Who: "anna"})
		return err
	}
	if err := promote(false, false); err != nil {
		t.Errorf("a stored promotion without an answer: %v", err)
	}
	if err := promote(true, true); err != nil {
		t.Errorf("a stored promotion, and another one after it: %v", err)
	}
	if err := promote(false, true); err == nil || !strings.Contains(err.Error(), "the change may be stored") {
		t.Errorf("a promotion without an answer, and another one after it: %v, want that it may be stored", err)
	}
}

// Imported states bring their network into a new job; the first worker brings the
// readout.
func TestImportedStatesSayTheirNetwork(t *testing.T) {
	m, network, retrained := twoModels(t)
	b := newRig(t)
	exported := func(m *reservoir.Model, job string) (all [][]byte) {
		c := quickConfig(job, 2)
		c.InputSubject = job + ".*"
		r := b.startStage(m, c)
		b.publishOn(job+".", pipelinetest.One(keysIn(0, 2, 1)[0], 1, 2, 1, false), pipelinetest.One(keysIn(1, 2, 1)[0], 1, 2, 1, false))
		b.settleMessages(r, 2)
		r.stopStage(t)
		for p := range 2 {
			raw, err := operate.Snapshot(t.Context(), b.js, job, p)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, raw)
		}
		return all
	}
	ours, others := exported(m, "from"), exported(network, "fromother")
	heir := quickConfig("heir", 2)
	heir.InputSubject = "heir.*"
	if err := operate.Import(t.Context(), b.js, heir, ours[0]); err != nil {
		t.Fatal(err)
	}
	if err := operate.Import(t.Context(), b.js, heir, others[1]); !errors.Is(err, pipeline.ErrOtherModel) {
		t.Errorf("states of two networks imported into a job: %v", err)
	}
	if err := operate.Import(t.Context(), b.js, heir, ours[1]); err != nil {
		t.Fatal(err)
	}
	b.refusedFor(t, network, heir, "network")
	b.startStage(retrained, heir).stopStage(t)
	b.forgetRegistry(heir.Job)
	b.refusedFor(t, m, heir, "readout")
}

// The entry is no prediction: readers of predictions do not receive it.
func TestEntryIsNoPrediction(t *testing.T) {
	m, _, _ := twoModels(t)
	b := newRig(t)
	c := quickConfig("only", 1)
	r := b.startStage(m, c)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", 1, 6, 1, true)})
	b.awaitPredictions("only", 2)
	r.stopStage(t)
	stop := errors.New("enough")
	first := true
	err := consumer.Predictions(t.Context(), b.js, "only", 1, func(o consumer.Output) error {
		if first && o.Seq == 1 {
			t.Error("the entry was handed over")
		}
		first = false
		if len(o.Predictions) > 0 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) {
		t.Error(err)
	}
	raw, err := b.js.Stream(t.Context(), wire.OutputStream("only"))
	if err != nil {
		t.Fatal(err)
	}
	msg, err := raw.GetMsg(t.Context(), 1)
	if err != nil || msg.Subject != "only.out.job" {
		t.Fatalf("message 1 is on %v (%v): the test has lost its subject", msg, err)
	}
	// An independent reader of the output finds a message without predictions.
	if _, ps, err := codec.DecodePredictions(msg.Data); err != nil || len(ps) != 0 {
		t.Errorf("%d predictions, %v", len(ps), err)
	}
}
