package pipeline_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/registry"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// readShadows returns the predictions of a job's shadows, by shadow and stream.
func (b *rig) readShadows(job string) (all map[string]map[string][]codec.Prediction, missing uint64, outs map[int]uint64) {
	b.t.Helper()
	outs = map[int]uint64{}
	all = map[string]map[string][]codec.Prediction{}
	err := consumer.Shadows(b.t.Context(), b.js, job, consumer.Span{From: 1, Stored: true}, func(o consumer.ShadowOutput) error {
		missing += o.Missing
		outs[o.Partition] = max(outs[o.Partition], o.Outs)
		if all[o.Shadow] == nil {
			all[o.Shadow] = map[string][]codec.Prediction{}
		}
		for _, p := range o.Predictions {
			all[o.Shadow][p.Stream] = append(all[o.Shadow][p.Stream], p)
		}
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return all, missing, outs
}

// repeatShadows republishes the last messages of shadows, like a worker after a
// takeover.
func (b *rig) repeatShadows(job string, n uint64) {
	b.t.Helper()
	s, err := b.js.Stream(b.t.Context(), wire.ShadowStream(job))
	if err != nil {
		b.t.Fatal(err)
	}
	last := s.CachedInfo().State.LastSeq
	for seq := last - n + 1; seq <= last; seq++ {
		m, err := s.GetMsg(b.t.Context(), seq)
		if err == nil {
			_, err = b.js.PublishMsg(b.t.Context(), &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data})
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

// awaitShadows waits until a worker scores n shadows.
func (r *running) awaitShadows(t *testing.T, b *rig, job string, n int) {
	t.Helper()
	pipelinetest.Until(t, fmt.Sprintf("%d shadows are scored", n), func() bool {
		all := r.counters.AtWork()
		return len(all) > 0 && all[0].ShadowCount() == n
	})
}

// Shadows while messages come, workers are killed and readouts are promoted: each
// shadow has, for each prediction of the job, once, the scores of a job with its
// readout. The job's own predictions and states are the same as without shadows.
func TestShadowsThroughCrashes(t *testing.T) {
	t.Parallel()
	m := severalReadouts(t, reservoir.Policy{Kind: reservoir.Marked, Early: 3})
	b := newRig(t)
	c := quickConfig("shadow", 3)
	rng := rand.New(rand.NewPCG(8, 9))
	const keys, rounds = 7, 4
	sent, seqs := map[string][]pipelinetest.Packet{}, map[string]uint64{}
	more := func() {
		for range 3 * keys {
			key := fmt.Sprint("k", rng.IntN(keys))
			seqs[key]++
			p := pipelinetest.One(key, seqs[key], 2, rng.Float32(), rng.IntN(4) == 0)
			sent[key] = append(sent[key], p)
			b.publishPackets([]pipelinetest.Packet{p})
		}
	}
	own := withReadout(m, m.Readouts[0]) // workers read the others from the registry
	r := b.startStage(own, c)
	names := map[string]string{} // of readouts, by their fingerprints
	for _, name := range []string{"b", "c"} {
		print := b.publishReadout("shadow", m, name)
		names[print] = name
		if _, err := operate.SetShadow(t.Context(), b.js, "shadow", operate.Shadow{Readout: print, Who: "anna"}); err != nil {
			t.Fatal(err)
		}
	}
	for round := range rounds {
		r.awaitShadows(t, b, "shadow", 2)
		more()
		if round%2 == 0 {
			r.crashStage(t)
			b.expireMembers("shadow")
		} else {
			r.waitUntil(t, "all input", func(s pipeline.Stats) bool { return s.Lag == 0 })
			r.stopStage(t)
		}
		more() // input before a worker's start has shadow scores, too
		r = b.startStage(own, c)
	}
	r.awaitShadows(t, b, "shadow", 2)
	more()
	want := map[string][]codec.Prediction{}
	total := 0
	for key, packets := range sent {
		want[key] = predictAlone(t, withReadout(m, m.Readouts[0]), codec.Reject, packets...)
		total += len(want[key])
	}
	active := b.awaitPredictions("shadow", total)
	same(t, active, want)
	r.waitUntil(t, "all input", func(s pipeline.Stats) bool { return s.Lag == 0 })
	var counted uint64
	for _, s := range r.counters.Shadows() {
		counted += s.Predictions
		if s.Missed != 0 || s.Predictions < s.Agreeing || s.Predictions == 0 {
			t.Errorf("counted %+v", s)
		}
	}
	if counted == 0 {
		t.Error("nothing is counted")
	}
	r.stopStage(t)

	b.repeatShadows("shadow", 5)
	all, missing, outs := b.readShadows("shadow")
	if missing != 0 || len(all) != 2 {
		t.Fatalf("%d shadows, %d predictions missing", len(all), missing)
	}
	for print, got := range all {
		i := slices.IndexFunc(m.Readouts, func(l *readout.Linear) bool { return l.Name == names[print] })
		plain := map[string][]codec.Prediction{}
		for key, ps := range got {
			for n, p := range ps {
				if a := active[key][n]; p.Details.Active != a.Class || p.Seq != a.Seq || p.Row != a.Row || p.Readout != print || p.Details.Input == 0 || p.Details.Stored == 0 {
					t.Fatalf("%s, stream %s, prediction %d: %+v beside %+v", names[print], key, n, p, a)
				}
				p.Readout, p.Details = "", nil
				plain[key] = append(plain[key], p)
			}
		}
		alones := map[string][]codec.Prediction{}
		for key, packets := range sent {
			alones[key] = predictAlone(t, withReadout(m, m.Readouts[i]), codec.Reject, packets...)
			for n := range alones[key] {
				alones[key][n].Inputs = nil // not contained in shadow predictions
			}
		}
		same(t, plain, alones)
	}
	for p := range 3 {
		if _, record := b.lastRecord("shadow", p); record.Outs != outs[p] {
			t.Errorf("partition %d has %d predictions, and the last of a shadow has the number %d", p, record.Outs, outs[p])
		}
		s := &pipeline.Worker{Job: pipeline.Job{Config: c, Model: m, NewEngine: pipelinetest.Generic, Dial: b.dialServer}}
		if v, err := replay.Verify(t.Context(), b.js, &s.Job, p); err != nil || v.Digest != v.Recorded {
			t.Errorf("partition %d: %+v, %v", p, v, err)
		}
	}
}

// A promoted shadow ends as a shadow; the other shadows name the active readout.
func TestShadowIsPromoted(t *testing.T) {
	m := severalReadouts(t, reservoir.Policy{Kind: reservoir.Count, Length: 1})
	b := newRig(t)
	c := quickConfig("rise", 1)
	r := b.startStage(m, c)
	first, second, third := b.publishReadout("rise", m, "test"), b.publishReadout("rise", m, "b"), b.publishReadout("rise", m, "c")
	for _, print := range []string{second, third} {
		if _, err := operate.SetShadow(t.Context(), b.js, "rise", operate.Shadow{Readout: print, Who: "anna"}); err != nil {
			t.Fatal(err)
		}
	}
	r.awaitShadows(t, b, "rise", 2)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", 1, 1, .5, false)})
	b.awaitPredictions("rise", 1)
	if _, err := operate.Promote(t.Context(), b.js, "rise", operate.PromoteOptions{Readout: second, Who: "anna"}); err != nil {
		t.Fatal(err)
	}
	b.awaitTaken("rise")
	r.awaitShadows(t, b, "rise", 1)
	if _, err := operate.SetShadow(t.Context(), b.js, "rise", operate.Shadow{Readout: second, Who: "anna"}); !errors.Is(err, operate.ErrActive) {
		t.Errorf("the readout that answers as a shadow: %v", err)
	}
	if _, err := operate.SetShadow(t.Context(), b.js, "rise", operate.Shadow{Readout: first, Who: "anna"}); err != nil { // the former readout may now be a shadow
		t.Error(err)
	}
	r.awaitShadows(t, b, "rise", 2)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", 2, 1, .5, false)})
	b.awaitPredictions("rise", 2)
	if _, err := operate.Promote(t.Context(), b.js, "rise", operate.PromoteOptions{Who: "anna"}); err != nil {
		t.Fatal(err)
	}
	left, err := operate.ShadowsOf(t.Context(), b.js, "rise")
	if err != nil || len(left) != 1 || left[0].Readout != third {
		t.Errorf("shadows %+v, %v: want %s alone", left, err, third)
	}
	r.stopStage(t)
	all, _, _ := b.readShadows("rise")
	var who []string
	for _, p := range all[third]["a"] {
		who = append(who, p.Details.ActiveReadout)
	}
	if !slices.Equal(who, []string{first, second}) || len(all[second]["a"]) != 1 || len(all[first]["a"]) != 1 {
		t.Errorf("the active readouts were %q, want %q and %q; shadows have %d and %d predictions, want 1 each", who, first, second, len(all[second]["a"]), len(all[first]["a"]))
	}
}

// An invalid shadow is refused with a sentence.
func TestShadowsRefused(t *testing.T) {
	m := severalReadouts(t, reservoir.Policy{Kind: reservoir.Marked})
	other := *m.Readouts[0]
	other.Name, other.Classes = "other", []string{"c0", "c2", "c1"}
	m.Readouts = append(m.Readouts, &other)
	b := newRig(t)
	r := b.startStage(m, quickConfig("refuse", 1))
	defer r.stopStage(t)
	try := func(print string) error {
		_, err := operate.SetShadow(t.Context(), b.js, "refuse", operate.Shadow{Readout: print, Who: "a"})
		return err
	}
	if err := try(b.publishReadout("refuse", m, "test")); !errors.Is(err, operate.ErrActive) {
		t.Error(err)
	}
	pipelinetest.Mentions(t, try(b.publishReadout("refuse", m, "other")), "its classes are")
	if err := try(strings.Repeat("0", wire.HashDigits)); !errors.Is(err, registry.ErrNoEntry) {
		t.Error(err)
	}
	if _, err := b.js.Stream(t.Context(), wire.ShadowStream("refuse")); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("a NATS stream of shadows where there is none: %v", err)
	}
	good := b.publishReadout("refuse", m, "b")
	if err := try(good); err != nil {
		t.Fatal(err)
	}
	if err := try(good); !errors.Is(err, operate.ErrShadow) {
		t.Error(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range wire.MostShadows {
		l := *m.Readouts[0]
		l.Name, l.Weights = fmt.Sprint("more", i), pipelinetest.Noise(rng, len(l.Weights))
		m.Readouts = append(m.Readouts, &l)
		err := try(b.publishReadout("refuse", m, l.Name))
		if wanted := i == wire.MostShadows-1; errors.Is(err, operate.ErrShadows) != wanted || !wanted && err != nil {
			t.Errorf("shadow %d: %v", i+2, err)
		}
	}
	if _, err := operate.EndShadow(t.Context(), b.js, "refuse", strings.Repeat("0", wire.HashDigits)); !errors.Is(err, operate.ErrNoShadow) {
		t.Error(err)
	}
	if left, err := operate.EndShadow(t.Context(), b.js, "refuse", good); err != nil || len(left) != wire.MostShadows-1 {
		t.Errorf("%d shadows, %v", len(left), err)
	}
}

// If the server does not store shadow predictions, or the list is invalid, the job
// continues, and reports it.
func TestShadowsHoldNothingBack(t *testing.T) {
	m := severalReadouts(t, reservoir.Policy{Kind: reservoir.Count, Length: 1})
	b, book := newLoggedRig(t)
	c := quickConfig("lame", 1)
	r := b.startStage(m, c)
	if _, err := operate.SetShadow(t.Context(), b.js, "lame", operate.Shadow{Readout: b.publishReadout("lame", m, "b"), Who: "anna"}); err != nil {
		t.Fatal(err)
	}
	r.awaitShadows(t, b, "lame", 1)
	if err := b.js.DeleteStream(t.Context(), wire.ShadowStream("lame")); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(3) {
		b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", i+1, 1, .5, false)})
		b.awaitPredictions("lame", int(i)+1)
	}
	r.waitUntil(t, "3 predictions", func(s pipeline.Stats) bool { return s.Predictions == 3 })
	if s := r.counters.Shadows(); len(s) != 1 || s[0].Missed != 3 || s[0].Predictions != 0 {
		t.Errorf("counted %+v", s)
	}
	if book.Lines("predictions of shadow models cannot be stored") != 1 {
		t.Errorf("the log:\n%s", book)
	}
	out, err := b.js.Stream(t.Context(), wire.OutputStream("lame"))
	if err != nil {
		t.Fatal(err)
	}
	e, seq, err := store.ReadEntry(t.Context(), out, "lame")
	if err != nil {
		t.Fatal(err)
	}
	e.Shadows = "{"
	if _, err := store.WriteEntry(t.Context(), b.js, out, &e, "lame", seq); err != nil {
		t.Fatal(err)
	}
	r.awaitShadows(t, b, "lame", 0)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", 4, 1, .5, false)})
	b.awaitPredictions("lame", 4)
	r.stopStage(t)
	if book.Lines("cannot compute a shadow") != 1 {
		t.Errorf("the log:\n%s", book)
	}
}

// narrow is an engine that accepts few readouts.
type narrow struct {
	reservoir.Engine
	most int
}

func (n *narrow) SetReadouts(all []*readout.Linear) error {
	if len(all) > n.most {
		return fmt.Errorf("%d readouts are too many, want at most %d", len(all), n.most)
	}
	return n.Engine.SetReadouts(all)
}

// Shadows that the engine no longer accepts since a promotion, in the middle of a batch
// and after it, are counted as missed, and the job answers.
func TestShadowsWithoutRoom(t *testing.T) {
	m := severalReadouts(t, reservoir.Policy{Kind: reservoir.Count, Length: 1})
	more := *m.Readouts[0]
	more.Name, more.Weights = "d", pipelinetest.Noise(rand.New(rand.NewPCG(7, 8)), len(more.Weights))
	m.Readouts = append(m.Readouts, &more)
	b, book := newLoggedRig(t)
	c := quickConfig("narrow", 1)
	three := func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		e, err := pipelinetest.Generic(net, slots)
		return &narrow{e, 3}, err
	}
	r := b.startWith(m, c, three)
	second, third, fourth := b.publishReadout("narrow", m, "b"), b.publishReadout("narrow", m, "c"), b.publishReadout("narrow", m, "d")
	for _, print := range []string{second, third} {
		if _, err := operate.SetShadow(t.Context(), b.js, "narrow", operate.Shadow{Readout: print, Who: "anna"}); err != nil {
			t.Fatal(err)
		}
	}
	r.awaitShadows(t, b, "narrow", 2)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", 1, 1, .5, false)})
	b.awaitPredictions("narrow", 1)
	r.waitUntil(t, "a prediction of each shadow", func(pipeline.Stats) bool {
		all := r.counters.Shadows()
		return len(all) == 2 && all[0].Predictions == 1 && all[1].Predictions == 1
	})
	if _, err := operate.Promote(t.Context(), b.js, "narrow", operate.PromoteOptions{Readout: fourth, Who: "anna"}); err != nil {
		t.Fatal(err)
	}
	b.awaitTaken("narrow")
	for i := range uint64(4) {
		b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", i+2, 1, .5, false)})
		b.awaitPredictions("narrow", int(i)+2)
	}
	r.waitUntil(t, "5 predictions", func(s pipeline.Stats) bool { return s.Predictions == 5 })
	for _, s := range r.counters.Shadows() {
		if s.Missed != 4 || s.Predictions != 1 {
			t.Errorf("counted %+v, want 1 prediction and 4 that were left out", s)
		}
	}
	r.stopStage(t)
	if book.Lines("has no room for the shadows") != 1 {
		t.Errorf("the log:\n%s", book)
	}
}
