package pipeline_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/registry"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// severalReadouts is a model with readouts test, b and c, of the same classes; b and c make
// sets of classes, some of b's predictions abstain, test and c say how unlike their training part a sequence is,
// and c when early predictions of marked sequences suffice.
func severalReadouts(t testing.TB, policy reservoir.Policy) *reservoir.Model {
	t.Helper()
	m := pipelinetest.Model(t, 3, policy)
	rng := rand.New(rand.NewPCG(5, 6))
	for _, name := range []string{"b", "c"} {
		l := *m.Readouts[0]
		l.Name, l.Weights = name, pipelinetest.Noise(rng, len(l.Weights))
		l.Temperature, l.Coverage = .5, &readout.Coverage{Level: .9, Least: slices.Repeat([]float64{.3}, len(l.Classes))}
		if name == "b" {
			pipelinetest.Abstaining(&l)
			l.Abstain.Above = .485 // about half of these inputs' probabilities are higher
		}
		if name == "c" && policy.Kind == reservoir.Marked && policy.Early > 0 {
			pipelinetest.Deciding(&l)
		}
		m.Readouts = append(m.Readouts, &l)
	}
	m.Readouts[0].Novelty, m.Readouts[2].Novelty = pipelinetest.Detector(m, 1), pipelinetest.Detector(m, 2)
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	return m
}

// withReadout returns a model with one readout of another model.
func withReadout(m *reservoir.Model, l *readout.Linear) *reservoir.Model {
	o := *m
	o.Readouts = []*readout.Linear{l}
	return &o
}

// byName returns a model's readouts by their names in predictions.
func byName(t testing.TB, m *reservoir.Model) map[string]*readout.Linear {
	t.Helper()
	all := map[string]*readout.Linear{}
	for _, l := range m.Readouts {
		name, err := readoutOf(m, l)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = l
	}
	return all
}

// awaitTaken waits until every partition has taken the job's newest promotion.
func (b *rig) awaitTaken(job string) operate.Promotions {
	b.t.Helper()
	var all operate.Promotions
	pipelinetest.Until(b.t, "the promotion is in every partition", func() bool {
		var err error
		if all, err = operate.PromotionsOf(b.t.Context(), b.js, job); err != nil {
			b.t.Fatal(err)
		}
		return all.Complete()
	})
	return all
}

// repeatKind publishes every event of a kind in the input once more.
func (b *rig) repeatKind(job, kind string) (n int) {
	b.t.Helper()
	in, err := b.js.Stream(b.t.Context(), wire.InputStream(job))
	if err != nil {
		b.t.Fatal(err)
	}
	for seq := uint64(1); seq <= in.CachedInfo().State.LastSeq; seq++ {
		m, err := in.GetMsg(b.t.Context(), seq)
		if err != nil {
			b.t.Fatal(err)
		}
		if m.Header.Get(wire.HeaderKind) != kind {
			continue
		}
		n++
		key := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
		if _, err := b.js.PublishMsg(b.t.Context(), &nats.Msg{Subject: "sensors." + key, Header: m.Header, Data: m.Data}); err != nil {
			b.t.Fatal(err)
		}
	}
	return n
}

// publishReadout puts a readout of a model into a job's registry and returns its
// fingerprint.
func (b *rig) publishReadout(job string, m *reservoir.Model, readoutName string) string {
	b.t.Helper()
	models, err := registry.Open(b.t.Context(), b.js, job)
	if err != nil {
		b.t.Fatal(err)
	}
	e, _, err := models.Publish(b.t.Context(), m, "m", readoutName, registry.Lineage{Who: "test", When: registry.Now()})
	if err != nil {
		b.t.Fatal(err)
	}
	return e.Fingerprint
}

// Promotions and rollbacks while messages come and workers are killed: every prediction
// has the scores of its named readout, each stream changes its readout between two
// sequences and in the order of the promotions, the states equal those of a job without
// promotions, and Verify confirms them.
func TestPromotionsThroughCrashes(t *testing.T) {
	t.Parallel()
	m := severalReadouts(t, reservoir.Policy{Kind: reservoir.Marked, Early: 3})
	b := newRig(t)
	c := quickConfig("promote", 3)
	c.StopTimeout = patience // a stopped worker releases its partitions, on any busy machine
	rng := rand.New(rand.NewPCG(3, 4))
	const keys, rounds = 9, 5
	sent, seqs := map[string][]pipelinetest.Packet{}, map[string]uint64{}
	more := func() {
		for range 2 * keys {
			key := fmt.Sprint("k", rng.IntN(keys))
			seqs[key]++
			p := pipelinetest.One(key, seqs[key], 2, rng.Float32(), rng.IntN(4) == 0)
			sent[key] = append(sent[key], p)
			b.publishPackets([]pipelinetest.Packet{p})
		}
	}
	for round := range rounds {
		r := b.startStage(m, c)
		b.awaitTaken("promote") // unfinished work of a killed worker
		more()
		var err error
		if round%3 == 2 {
			_, err = operate.Promote(t.Context(), b.js, "promote", operate.PromoteOptions{Who: "anna"})
		} else {
			_, err = operate.Promote(t.Context(), b.js, "promote", operate.PromoteOptions{Readout: b.publishReadout("promote", m, []string{"b", "c"}[round%2]), Who: "anna"})
		}
		if err != nil {
			t.Fatal(err)
		}
		more()
		if round%2 == 0 {
			b.awaitTaken("promote")
			more()
			r.stopStage(t)
			continue
		}
		r.crashStage(t) // only some partitions may have the promotion
		b.expireMembers("promote")
		b.repeatKind("promote", wire.KindPromote)
	}
	r := b.startStage(m, c)
	more()
	all := b.awaitTaken("promote")
	if n := len(all.Promotions); n != rounds || all.Newest().Number != rounds || all.Newest().Who != "anna" {
		t.Errorf("promotions %+v", all.Promotions)
	}

	want := 0
	alones := map[string]map[string][]codec.Prediction{}
	for name, l := range byName(t, m) {
		alones[name] = map[string][]codec.Prediction{}
		for key, packets := range sent {
			alones[name][key] = predictAlone(t, withReadout(m, l), codec.Reject, packets...)
		}
	}
	for key := range sent {
		for name := range alones {
			want += len(alones[name][key])
			break
		}
	}
	got := nameReadouts(t, m, b.awaitPredictions("promote", want))
	r.waitUntil(t, "all input", func(s pipeline.Stats) bool { return s.Lag == 0 })
	r.stopStage(t)
	checkReadouts(t, m, got, alones)
	sums := b.finalDigests("promote", 3)
	for p := range 3 {
		s := &pipeline.Worker{Job: pipeline.Job{Config: c, Model: m, NewEngine: pipelinetest.Generic, Dial: b.dialServer}}
		if v, err := replay.Verify(t.Context(), b.js, &s.Job, p); err != nil || v.Digest != v.Recorded {
			t.Errorf("partition %d: %+v, %v", p, v, err)
		}
	}

	// A new job with the same name has the same states, and ignores the promotions
	// still in the log.
	b.forgetOutput("promote")
	r = b.startStage(m, c)
	anew := b.awaitPredictions("promote", want)
	for name, l := range byName(t, m) {
		for key := range sent {
			for i, p := range anew[key] {
				if l == m.Readouts[0] && (p.Readout != "" || !slices.Equal(p.Scores, alones[name][key][i].Scores)) {
					t.Fatalf("begun anew, stream %s, prediction %d: %+v", key, i, p)
				}
			}
		}
	}
	r.waitUntil(t, "all input", func(s pipeline.Stats) bool { return s.Lag == 0 })
	r.stopStage(t)
	if again := b.finalDigests("promote", 3); !slices.Equal(again, sums) {
		t.Errorf("final states %v, the first time %v", again, sums)
	}
}

// nameReadouts replaces an empty name with the job's first readout, for messages before the
// first promotion.
func nameReadouts(t *testing.T, m *reservoir.Model, all map[string][]codec.Prediction) map[string][]codec.Prediction {
	t.Helper()
	first, err := readoutOf(m, m.Readouts[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, ps := range all {
		for i := range ps {
			ps[i].Readout = cmp.Or(ps[i].Readout, first)
		}
	}
	return all
}

// checkReadouts compares predictions with the predictions of each readout separately.
func checkReadouts(t *testing.T, m *reservoir.Model, got map[string][]codec.Prediction, alones map[string]map[string][]codec.Prediction) {
	t.Helper()
	used, want := map[string]int{}, map[string][]codec.Prediction{}
	for key, ps := range got {
		for i, p := range ps {
			name := p.Readout
			used[name]++
			if i >= len(alones[name][key]) {
				t.Fatalf("stream %s has %d predictions, want %d of readout %q", key, len(ps), len(alones[name][key]), name)
			}
			want[key] = append(want[key], alones[name][key][i])
			want[key][i].Readout = name
			if i > 0 && ps[i-1].Flags&outcome.FlagEarly != 0 && ps[i-1].Readout != name {
				t.Errorf("stream %s, prediction %d: readout %q in the middle of a sequence of %q", key, i, p.Readout, ps[i-1].Readout)
			}
		}
	}
	same(t, got, want)
	answered := map[bool]int{}
	for name, l := range byName(t, m) {
		for key, ps := range got {
			for i, p := range ps {
				if p.Readout != name {
					continue
				}
				abstains := p.Flags&outcome.FlagAbstain != 0
				if l.Abstain != nil {
					answered[!abstains]++
				}
				if abstains != l.Abstains(p.Probability) {
					t.Errorf("stream %s, prediction %d of readout %s: %+v", key, i, l.Name, p)
				}
			}
		}
	}
	rule := func(l *readout.Linear) bool { return l.Abstain != nil }
	if slices.ContainsFunc(m.Readouts, rule) && (answered[true] == 0 || answered[false] == 0) {
		t.Errorf("of the readout that abstains sometimes %d predictions answer and %d abstain, want some of each", answered[true], answered[false])
	}
	if len(used) != len(m.Readouts) {
		t.Errorf("readouts used: %v, want all of %d", used, len(m.Readouts))
	}
}

// An invalid promotion is refused with a sentence, and the job stays unchanged.
func TestPromotionsRefused(t *testing.T) {
	m := severalReadouts(t, reservoir.Policy{Kind: reservoir.Marked})
	other := *m.Readouts[0]
	other.Name, other.Classes = "other", []string{"c0", "c2", "c1"}
	m.Readouts = append(m.Readouts, &other)
	b := newRig(t)
	c := quickConfig("refuse", 2)
	r := b.startStage(m, c)
	defer r.stopStage(t)
	entry := func() uint64 {
		out, err := b.js.Stream(t.Context(), wire.OutputStream("refuse"))
		if err != nil {
			t.Fatal(err)
		}
		_, seq, err := store.ReadEntry(t.Context(), out, "refuse")
		if err != nil {
			t.Fatal(err)
		}
		return seq
	}
	before := entry()
	try := func(fingerprint string) error {
		_, err := operate.Promote(t.Context(), b.js, "refuse", operate.PromoteOptions{Readout: fingerprint, Who: "a"})
		return err
	}
	if err := try(b.publishReadout("refuse", m, "test")); !errors.Is(err, operate.ErrActive) {
		t.Error(err)
	}
	pipelinetest.Mentions(t, try(b.publishReadout("refuse", m, "other")), "its classes are", "start a new job")
	if err := try(strings.Repeat("0", wire.HashDigits)); !errors.Is(err, registry.ErrNoEntry) {
		t.Error(err)
	}
	retired := b.publishReadout("refuse", m, "c")
	models, err := registry.Open(t.Context(), b.js, "refuse")
	if err != nil {
		t.Fatal(err)
	}
	if err := models.Retire(t.Context(), retired, registry.Retirement{Who: "a", When: registry.Now()}); err != nil {
		t.Fatal(err)
	}
	if err := try(retired); !errors.Is(err, registry.ErrRetired) {
		t.Error(err)
	}
	if _, err := operate.Promote(t.Context(), b.js, "refuse", operate.PromoteOptions{Who: "a"}); !errors.Is(err, operate.ErrNoPrevious) {
		t.Error(err)
	}
	if entry() != before {
		t.Error("the job's entry has changed")
	}

	// The job's first readout is refused, too, if retired.
	if _, err := operate.Promote(t.Context(), b.js, "refuse", operate.PromoteOptions{Readout: b.publishReadout("refuse", m, "b"), Who: "a"}); err != nil {
		t.Fatal(err)
	}
	first := b.publishReadout("refuse", m, "test")
	if err := models.Retire(t.Context(), first, registry.Retirement{Who: "a", When: registry.Now()}); err != nil {
		t.Fatal(err)
	}
	if _, err := operate.Promote(t.Context(), b.js, "refuse", operate.PromoteOptions{Who: "a"}); !errors.Is(err, registry.ErrRetired) {
		t.Errorf("rollback to a retired readout: %v", err)
	}
	if err := try(first); !errors.Is(err, registry.ErrRetired) {
		t.Errorf("promotion of the first readout, retired: %v", err)
	}
}

// A worker that cannot load a promoted readout, because the registry is gone, stops
// nothing and mixes nothing: the promotion waits for a worker whose model has the
// readout. A program without promotions is refused by the job's entry and by each
// record.
func TestPromotionWaitsForItsReadout(t *testing.T) {
	m := severalReadouts(t, reservoir.Policy{Kind: reservoir.Count, Length: 1})
	b := newRig(t)
	c := quickConfig("waits", 1)
	lacks := b.startStage(withReadout(m, m.Readouts[0]), c)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", 1, 1, .5, false)})
	b.settleMessages(lacks, 1)
	lacks.stopStage(t)
	if _, err := operate.Promote(t.Context(), b.js, "waits", operate.PromoteOptions{Readout: b.publishReadout("waits", m, "b"), Who: "a"}); err != nil {
		t.Fatal(err)
	}
	b.forgetRegistry("waits")
	lacks = b.startStage(withReadout(m, m.Readouts[0]), c)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", 2, 1, .5, false)})
	b.settleMessages(lacks, 2)
	lacks.stopStage(t)
	r := b.startStage(m, c)
	b.awaitTaken("waits")
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", 3, 1, .5, false)})
	got := b.awaitPredictions("waits", 3)["a"]
	r.stopStage(t)
	names := byName(t, m)
	if got[0].Readout != "" || got[1].Readout != "" || names[got[2].Readout] != m.Readouts[1] {
		t.Errorf("readouts %q, %q, %q", got[0].Readout, got[1].Readout, got[2].Readout)
	}
	if _, record := b.lastRecord("waits", 0); record.Promoted.Number != 1 {
		t.Errorf("record %+v", record.Promoted)
	}
	out, err := b.js.Stream(t.Context(), wire.OutputStream("waits"))
	if err != nil {
		t.Fatal(err)
	}
	job, err := out.GetLastMsgForSubject(t.Context(), wire.EntrySubject("waits"))
	if err != nil {
		t.Fatal(err)
	}
	if shown := job.Header.Get(wire.HeaderReadout); names[shown] != m.Readouts[0] {
		t.Errorf("the entry names readout %q, want the readout of the job's start", shown)
	}
}

// On a cluster of three servers the job's model is in its registry before the first
// worker reads, and a promotion reaches every partition. (A model missing in the
// registry is not retried as if a server lagged.)
func TestPromotionInCluster(t *testing.T) {
	m := severalReadouts(t, reservoir.Policy{Kind: reservoir.Count, Length: 1})
	b := newTrioRig(t)
	c := quickConfig("trio", 3)
	c.Replicas, c.Lease = 3, 3*time.Second
	r := b.startStage(withReadout(m, m.Readouts[0]), c)
	models, err := registry.Open(t.Context(), b.js, "trio")
	if err != nil {
		t.Fatal(err)
	}
	if all, err := models.List(t.Context()); err != nil || len(all) != 1 {
		t.Fatalf("models %+v, %v; want the worker's", all, err)
	}
	if _, err := operate.Promote(t.Context(), b.js, "trio", operate.PromoteOptions{Readout: b.publishReadout("trio", m, "b"), Who: "a"}); err != nil {
		t.Fatal(err)
	}
	b.awaitTaken("trio")
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", 1, 1, .5, false)})
	if got := b.awaitPredictions("trio", 1)["a"]; byName(t, m)[got[0].Readout] != m.Readouts[1] {
		t.Errorf("readout %q", got[0].Readout)
	}
	r.stopStage(t)
}
