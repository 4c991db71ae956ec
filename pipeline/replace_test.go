package pipeline_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// replaceNetwork makes a job continue with another job's network.
func (b *rig) replaceNetwork(m *reservoir.Model, c pipeline.Config, with *reservoir.Model, by pipeline.Config) operate.Replaced {
	b.t.Helper()
	r, err := b.newChanger(m, c).replaceJob(b.t.Context(), b.newChanger(with, by))
	if err != nil {
		b.t.Fatal(err)
	}
	if r.Step != "" || r.With != by.Job {
		b.t.Fatalf("the job is %+v, want it to continue with job %s", r, by.Job)
	}
	return r
}

// checkSwitch requires that a job's predictions of each stream come from one network up
// to some position, and afterwards from another network with the same policy. The
// result is the number of streams with predictions of the second network.
func checkSwitch(t *testing.T, got, first, then map[string][]codec.Prediction) (switched int) {
	t.Helper()
	for stream, all := range got {
		was, is, behind := first[stream], then[stream], false
		if len(all) != len(is) {
			t.Fatalf("stream %s has %d predictions, want %d", stream, len(all), len(is))
		}
		for i, p := range all {
			behind = behind || !pipelinetest.SameBits(p.Scores, was[i].Scores)
			if want := is[i]; p.Seq != want.Seq || p.Row != want.Row || behind && !pipelinetest.SameBits(p.Scores, want.Scores) {
				t.Fatalf("stream %s, prediction %d is %+v, the one network says %+v, the other one %+v", stream, i, p, was[i], want)
			}
		}
		if behind {
			switched++
		}
	}
	return switched
}

// A job continues with the network and states of another job that reads its input,
// under load, after kills of both: up to the cut its predictions come from its own
// network, then from the other's, bit for bit, in open sequences, too; none is lost or
// duplicated. Its old worker is then refused, and a second replacement works.
func TestReplace(t *testing.T) {
	t.Parallel()
	streams := pipelinetest.Recordings(20, 90)
	packets, sent := pipelinetest.Mixed(streams, 8)
	packets = pipelinetest.Disorder(packets, rand.New(rand.NewPCG(1, 2)))
	policy := reservoir.Policy{Kind: reservoir.Marked, Early: 3}
	blue, green := pipelinetest.Model(t, 3, policy), pipelinetest.Bank(t, 2, 9, 3, policy)
	want := map[bool]map[string][]codec.Prediction{false: direct(t, blue, streams, sent), true: direct(t, green, streams, sent)}
	b := newRig(t)
	own, other := quickConfig("blue", 6), configBeside("green", "blue")
	other.MaxSlots = 4 // most states are stored apart
	part := len(packets) / 6
	first := b.startStage(blue, own)
	b.publishPackets(packets[:part])
	second := b.startStage(green, other)
	b.publishPackets(packets[part : 2*part])
	second.waitUntil(t, "some messages", func(s pipeline.Stats) bool { return s.Messages > 5 })
	first.crashStage(t)
	second.crashStage(t)
	b.expireMembers(own.Job)
	b.expireMembers(other.Job)
	var r operate.Replaced
	b.publishMeanwhile(packets[2*part:3*part], func() { r = b.replaceNetwork(blue, own, green, other) })
	if r.Generation != 1 {
		t.Errorf("the job is %+v, want generation 1", r)
	}
	if r.Cut < uint64(2*part) {
		t.Errorf("the cut is %d, and %d messages were there before", r.Cut, 2*part)
	}
	cut := r.Cut
	r.Cut = 0
	if again := b.replaceNetwork(blue, own, green, other); again != r {
		t.Errorf("the second time, the job is %+v, it was %+v", again, r)
	}
	mentions(t, b.launchFails(blue, own), "network")
	if err := b.launchFails(blue, own); !errors.Is(err, pipeline.ErrOtherModel) {
		t.Errorf("a worker with the network of before: %v", err)
	}
	next := b.startStage(green, own)
	second = b.startStage(green, other) // the other job may continue, or be deleted
	b.publishPackets(packets[3*part : 4*part])
	next.waitUntil(t, "some messages", func(s pipeline.Stats) bool { return s.Messages > 5 })
	next.crashStage(t)
	b.expireMembers(own.Job)
	next = b.startStage(green, own)
	b.publishPackets(packets[4*part:])
	t.Logf("cut after message %d", cut)
	b.awaitPredictions(own.Job, count(want[true]))
	next.waitUntil(t, "all input", func(s pipeline.Stats) bool { return s.Lag == 0 })
	all := b.readPredictions(own.Job)
	if count(all) != count(want[true]) {
		t.Errorf("%d predictions, want %d", count(all), count(want[true]))
	}
	if n := checkSwitch(t, all, want[false], want[true]); n < len(streams) {
		t.Errorf("%d of %d streams have predictions of the other network", n, len(streams))
	}
	same(t, clean(b.awaitPredictions(other.Job, count(want[true])), outcome.FlagReordered), clean(want[true], outcome.FlagReordered))
	next.stopStage(t)
	second.stopStage(t)
	for p := range own.Partitions {
		if _, err := b.newChanger(green, own).verifyPartition(t.Context(), b.js, p); err != nil {
			t.Error(err)
		}
		if got, want := b.stateOfKeys(own.Job, p), b.stateOfKeys(other.Job, p); got != want {
			t.Errorf("partition %d: the states of the two jobs have the digests %v and %v", p, got, want)
		}
	}
	for _, job := range []string{own.Job, other.Job} {
		if dead := b.deadLetters(job); len(dead) > 0 {
			t.Errorf("job %s has %d dead letters, the first: %+v", job, len(dead), dead[0])
		}
	}
}

// stateOfKeys returns the digest of the keys in a partition's stored state.
func (b *rig) stateOfKeys(job string, p int) wire.Digest {
	b.t.Helper()
	snap, err := operate.Snapshot(b.t.Context(), b.js, job, p)
	if err != nil {
		b.t.Fatal(err)
	}
	shape, _, err := state.ShapeIn(snap)
	if err != nil {
		b.t.Fatal(err)
	}
	part, err := state.Decode(snap, shape, p)
	if err != nil {
		b.t.Fatal(err)
	}
	sum, err := part.DigestOfKeys()
	if err != nil {
		b.t.Fatal(err)
	}
	return sum
}

// Interrupted before each of its writes, the change continues with the next call;
// before publication, the change can be abandoned, and the job continues unchanged.
func TestReplaceInterrupted(t *testing.T) {
	t.Parallel()
	streams := pipelinetest.Recordings(12, 60)
	packets, sent := pipelinetest.Mixed(streams, 4)
	policy := reservoir.Policy{Kind: reservoir.Window, Length: 10, Hop: 2}
	blue, green := pipelinetest.Model(t, 2, policy), pipelinetest.Bank(t, 2, 9, 2, policy)
	want := map[bool]map[string][]codec.Prediction{false: direct(t, blue, streams, sent), true: direct(t, green, streams, sent)}
	b := newRig(t)
	own, other := quickConfig("blue", 3), configBeside("green", "blue")
	third := len(packets) / 3
	b.answerPackets(blue, own, packets[:third], third)
	b.startStage(green, other).stopStage(t) // it has not read all input
	ended := errors.New("ended by the test")
	s := b.newChanger(blue, own)
	for _, last := range []string{"note replace-drain", "note replace-store", "note replace-publish"} {
		s.before = func(what string) error {
			if what == last {
				return ended
			}
			return nil
		}
		if _, err := s.replaceJob(t.Context(), b.newChanger(green, other)); !errors.Is(err, ended) {
			t.Fatal(last, err)
		}
		if last == "note replace-store" { // no worker of either starts, nor another change
			mentions(t, b.launchFails(blue, own), "states of job \"green\"")
			mentions(t, b.launchFails(green, other), "states of job \"green\"")
			if _, err := b.newChanger(blue, own).resizeJob(t.Context(), 5); !errors.Is(err, operate.ErrShared) && !errors.Is(err, pipeline.ErrChanging) {
				t.Errorf("the number of partitions changes meanwhile: %v", err)
			}
		}
		s.before = nil
		if err := s.abandonChange(t.Context()); err != nil {
			t.Fatal(err)
		}
		r := b.startStage(blue, own)
		r.waitUntil(t, "all input", func(s pipeline.Stats) bool { return s.Lag == 0 })
		r.stopStage(t)
	}
	seen, times := map[string]int{}, 0
	s.before = func(what string) error { // records are written at the claim, and at the publication
		if seen[what]++; seen[what]%2 == 0 {
			return nil
		}
		times++
		return ended
	}
	rest := packets[third : 2*third]
	for {
		r, err := s.replaceJob(t.Context(), b.newChanger(green, other))
		if err == nil {
			break
		}
		if !errors.Is(err, ended) {
			t.Fatal(err)
		}
		if len(rest) > 0 {
			b.publishPackets(rest[:1])
			rest = rest[1:]
		}
		if r.Step == string(wire.ReplacePublish) {
			if err := s.abandonChange(t.Context()); !errors.Is(err, operate.ErrPastCut) {
				t.Fatalf("abandoned where states are published: %v", err)
			}
		}
	}
	if len(seen) < 11 || times < 14 || seen["record 0"] < 4 {
		t.Errorf("interrupted %d times, before %v", times, seen)
	}
	b.publishPackets(rest)
	b.publishPackets(packets[2*third:])
	r := b.startStage(green, own)
	b.awaitPredictions(own.Job, count(want[true]))
	r.waitUntil(t, "all input", func(s pipeline.Stats) bool { return s.Lag == 0 })
	r.stopStage(t)
	all := b.readPredictions(own.Job)
	if count(all) != count(want[true]) {
		t.Errorf("%d predictions, want %d", count(all), count(want[true]))
	}
	if n := checkSwitch(t, all, want[false], want[true]); n < len(streams) {
		t.Errorf("%d of %d streams have predictions of the other network", n, len(streams))
	}
	for p := range own.Partitions {
		if _, err := b.newChanger(green, own).verifyPartition(t.Context(), b.js, p); err != nil {
			t.Error(err)
		}
	}
}

// Jobs with promotions: numbers continue, so that a late old promotion does nothing,
// and the next promotion is used.
func TestReplaceAndPromotions(t *testing.T) {
	t.Parallel()
	policy := reservoir.Policy{Kind: reservoir.Marked}
	blue := severalReadouts(t, policy)
	green := pipelinetest.Bank(t, 2, 9, len(blue.Readouts[0].Classes), policy)
	b := newRig(t)
	own, other := quickConfig("blue", 2), configBeside("green", "blue")
	next := withReadout(green, green.Readouts[0])
	second := *next.Readouts[0]
	second.Name, second.Weights = "d", pipelinetest.Noise(rand.New(rand.NewPCG(7, 8)), len(second.Weights))
	green.Readouts = append(green.Readouts, &second)
	packets := func(from uint64) (all []pipelinetest.Packet) {
		for i := range uint64(6) {
			all = append(all, pipelinetest.One("s", from+i, 2, float32(from+i)/64, true))
		}
		return all
	}
	promote := func(job string, m *reservoir.Model, readoutName string) {
		if _, err := operate.Promote(t.Context(), b.js, job, operate.PromoteOptions{Readout: b.publishReadout(job, m, readoutName), Who: "anna"}); err != nil {
			t.Fatal(err)
		}
		b.awaitTaken(job)
	}
	first, behind := b.startStage(blue, own), b.startStage(green, other)
	b.publishPackets(packets(1))
	promote(own.Job, blue, "b")
	promote(own.Job, blue, "c")
	promote(other.Job, green, "d")
	b.publishPackets(packets(7))
	b.awaitPredictions(own.Job, 12)
	b.awaitPredictions(other.Job, 12)
	first.stopStage(t)
	behind.stopStage(t)
	b.replaceNetwork(blue, own, green, other)
	if n := b.repeatKind(own.Job, wire.KindPromote); n < 6 {
		t.Fatalf("%d promotions were sent again, want those of two partitions and two jobs", n)
	}
	first = b.startStage(green, own)
	b.publishPackets(packets(13))
	b.awaitPredictions(own.Job, 18)
	all := b.awaitTaken(own.Job)
	if n := all.Newest(); n.Number != 3 || len(all.Promotions) != 2 {
		t.Errorf("promotions %+v, want numbers 2 and 3", all.Promotions)
	}
	if p, err := operate.Promote(t.Context(), b.js, own.Job, operate.PromoteOptions{Who: "anna"}); err != nil || p.Number != 4 || p.Readout != "" {
		t.Errorf("rolled back to %+v (%v), want the readout that the network began with, number 4", p, err)
	}
	b.awaitTaken(own.Job)
	b.publishPackets(packets(19))
	got := b.awaitPredictions(own.Job, 24)["s"]
	first.stopStage(t)
	var sent []pipelinetest.Packet
	for _, from := range []uint64{1, 7, 13, 19} {
		sent = append(sent, packets(from)...)
	}
	for i, m := range []*reservoir.Model{withReadout(blue, blue.Readouts[0]), withReadout(blue, blue.Readouts[2]), withReadout(green, &second), next} {
		for k, want := range predictAlone(t, m, codec.Reject, sent...)[6*i : 6*i+6] {
			if p := got[6*i+k]; !slices.Equal(p.Scores, want.Scores) {
				t.Errorf("prediction %d is %+v, want the scores %v", 6*i+k, p, want.Scores)
			}
		}
	}
	for p := range own.Partitions {
		if _, err := b.newChanger(green, own).verifyPartition(t.Context(), b.js, p); err != nil {
			t.Error(err)
		}
	}
}

// An unsuitable replacement is refused with a sentence, and nothing changes.
func TestReplaceRefused(t *testing.T) {
	t.Parallel()
	policy := reservoir.Policy{Kind: reservoir.Marked}
	blue, green := pipelinetest.Model(t, 2, policy), pipelinetest.Bank(t, 2, 9, 2, policy)
	b := newRig(t)
	own, other := quickConfig("blue", 2), configBeside("green", "blue")
	apart := quickConfig("apart", 2)
	apart.InputSubject = "apart.*"
	b.startStage(blue, own).stopStage(t)
	b.startStage(green, apart).stopStage(t)
	b.startStage(green, other).stopStage(t)
	b.startStage(pipelinetest.Bank(t, 2, 9, 3, policy), configBeside("three", "blue")).stopStage(t)
	b.startStage(severalReadouts(t, policy), configBeside("many", "blue")).stopStage(t)
	refused := func(m *reservoir.Model, c pipeline.Config, with *reservoir.Model, by pipeline.Config, want error, words ...string) {
		t.Helper()
		_, err := b.newChanger(m, c).replaceJob(t.Context(), b.newChanger(with, by))
		if !errors.Is(err, want) {
			t.Fatalf("job %s with job %s: %v, want %v", c.Job, by.Job, err, want)
		}
		mentions(t, err, words...)
	}
	none := other
	none.Job = "none"
	refused(blue, own, green, none, wire.ErrNoJob, `"none"`)
	refused(blue, own, green, apart, operate.ErrUnfit, "does not read the input", "input.job blue")
	refused(blue, own, pipelinetest.Bank(t, 2, 9, 3, policy), configBeside("three", "blue"), operate.ErrUnfit, "classes", `"c2"`)
	refused(green, other, blue, own, operate.ErrShared, `"green"`)
	refused(blue, own, pipelinetest.Bank(t, 2, 8, 2, policy), other, pipeline.ErrOtherModel, `"green"`)
	refused(green, own, green, other, pipeline.ErrOtherModel, `"blue"`)
	r := b.startStage(green, other)
	refused(blue, own, green, other, operate.ErrWorkers)
	r.stopStage(t)
	out, err := b.js.Stream(t.Context(), wire.OutputStream("blue"))
	if err != nil {
		t.Fatal(err)
	}
	if e, _, err := store.ReadEntry(t.Context(), out, "blue"); err != nil || e.Resize != (wire.Resize{}) {
		t.Errorf("the entry of job blue is %+v (%v)", e, err)
	}
	b.startStage(blue, own).stopStage(t)
	two := withReadout(blue, blue.Readouts[0])
	l := *two.Readouts[0]
	l.Name, l.Weights = "x", pipelinetest.Noise(rand.New(rand.NewPCG(7, 8)), len(l.Weights))
	two.Readouts = []*readout.Linear{&l}
	b.startStage(two, configBeside("same", "blue")).stopStage(t)
	refused(blue, own, two, configBeside("same", "blue"), operate.ErrUnfit, "one network", "promote it")
}

// A new worker of the other job may pass the cut during the read of the states: the
// change sets a new cut.
func TestReplaceBesideALateWorker(t *testing.T) {
	t.Parallel()
	streams := pipelinetest.Recordings(6, 30)
	packets, sent := pipelinetest.Mixed(streams, 4)
	policy := reservoir.Policy{Kind: reservoir.Marked}
	blue, green := pipelinetest.Model(t, 2, policy), pipelinetest.Bank(t, 2, 9, 2, policy)
	b := newRig(t)
	own, other := quickConfig("blue", 2), configBeside("green", "blue")
	half := len(packets) / 2
	b.answerPackets(blue, own, packets[:half], half)
	b.startStage(green, other).stopStage(t)
	s := b.newChanger(blue, own)
	var notes []string
	claimed := false
	s.before = func(what string) error {
		if strings.HasPrefix(what, "note") {
			notes = append(notes, what)
		}
		if claimed || !strings.HasPrefix(what, "snapshot") || notes[len(notes)-1] != "note replace-store" {
			return nil
		}
		claimed = true
		m, err := b.js.Stream(t.Context(), wire.OutputStream(other.Job))
		if err != nil {
			return err
		}
		last, err := m.GetLastMsgForSubject(t.Context(), wire.OutputSubject(other.Job, 0))
		if err != nil {
			return err
		}
		next := nats.NewMsg(last.Subject)
		next.Data = last.Data
		for k, v := range last.Header {
			if strings.HasPrefix(k, "Eusn-") {
				next.Header[k] = v
			}
		}
		next.Header.Set(wire.HeaderKind, wire.KindClaim)
		_, err = b.js.PublishMsg(t.Context(), next)
		return err
	}
	r, err := s.replaceJob(t.Context(), b.newChanger(green, other))
	if err != nil {
		t.Fatal(err)
	}
	drains := 0
	for _, n := range notes {
		if n == "note replace-drain" {
			drains++
		}
	}
	if !claimed || drains < 4 {
		t.Errorf("claimed %v; the notes are %v, want a second cut, and so four of replace-drain", claimed, notes)
	}
	b.publishPackets(packets[half:])
	w := b.startStage(green, own)
	w.waitUntil(t, "all input", func(s pipeline.Stats) bool { return s.Lag == 0 && s.Messages > 0 })
	w.stopStage(t)
	all := b.readPredictions(own.Job)
	if n := checkSwitch(t, all, direct(t, blue, streams, sent), direct(t, green, streams, sent)); n == 0 {
		t.Errorf("no stream has predictions of the other network, cut %d", r.Cut)
	}
}

// A job that began late has no state of keys silent since, and of other keys only held
// messages. The previous job's knowledge of these keys is kept: a repeated message is a
// repeat, the next message is used immediately, no prediction is duplicated, and a
// sequence continued in its middle is flagged.
func TestReplaceWithALateJob(t *testing.T) {
	t.Parallel()
	policy := reservoir.Policy{Kind: reservoir.Marked}
	blue, green := pipelinetest.Model(t, 2, policy), pipelinetest.Bank(t, 2, 9, 2, policy)
	b := newRig(t)
	own, other := quickConfig("blue", 2), configBeside("green", "blue")
	old := []pipelinetest.Packet{
		pipelinetest.One("silent", 1, 3, .5, true), pipelinetest.One("silent", 2, 3, .25, true), // between two sequences
		pipelinetest.One("open", 1, 3, .5, false),
		pipelinetest.One("waits", 1, 3, .5, true), pipelinetest.One("waits", 3, 3, .125, true), // its second is missing
		pipelinetest.One("both", 1, 3, .5, true),
	}
	b.answerPackets(blue, own, old, len(old))
	other.Shared.From = "now"
	late := b.startStage(green, other)
	w := b.startStage(blue, own)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("both", 2, 3, .5, true)}) // to the late job, it waits for a first message
	b.awaitPredictions(own.Job, 5)
	late.waitUntil(t, "the message", func(s pipeline.Stats) bool { return s.Messages > 0 && s.Lag == 0 })
	w.stopStage(t)
	late.stopStage(t)
	b.replaceNetwork(blue, own, green, other)
	b.publishPackets([]pipelinetest.Packet{
		pipelinetest.One("silent", 2, 3, .25, true), // repeated
		pipelinetest.One("silent", 3, 3, .75, true),
		pipelinetest.One("open", 2, 3, .5, true),
		pipelinetest.One("waits", 2, 3, .5, true),
		pipelinetest.One("both", 2, 3, .5, true), // repeated
		pipelinetest.One("both", 3, 3, .5, true),
	})
	w = b.startStage(green, own)
	w.waitUntil(t, "all input", func(s pipeline.Stats) bool { return s.Lag == 0 && s.Messages > 0 })
	s := w.counters.Stats()
	w.stopStage(t)
	if s.Duplicates != 2 || s.Parked != 0 {
		t.Errorf("%d repeats, %d messages wait; want 2 and none", s.Duplicates, s.Parked)
	}
	got := map[string]string{}
	for stream, all := range b.readPredictions(own.Job) {
		for _, p := range all {
			got[stream] += fmt.Sprintf("%d %v; ", p.Seq, p.Flags)
		}
	}
	want := map[string]string{"silent": "1 ; 2 ; 3 ; ", "open": "2 gap; ", "waits": "1 ; 2 ; 3 reordered; ", "both": "1 ; 2 ; 3 ; "}
	for stream, text := range want {
		if got[stream] != text {
			t.Errorf("stream %s has the predictions %q, want %q", stream, got[stream], text)
		}
	}
}
