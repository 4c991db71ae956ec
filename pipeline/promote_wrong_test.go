package pipeline_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/registry"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// A change of the number of partitions after promotions: each open sequence keeps its
// first readout, in any partition, and later promotions reach all.
func TestResizeKeepsReadouts(t *testing.T) {
	t.Parallel()
	m := severalReadouts(t, reservoir.Policy{Kind: reservoir.Marked, Early: 3})
	b := newRig(t)
	c := quickConfig("moves", 3)
	rng := rand.New(rand.NewPCG(8, 4))
	sent, seqs := map[string][]pipelinetest.Packet{}, map[string]uint64{}
	open, begun := map[string]bool{}, map[string][]string{} // by key: the readout of each of its sequences
	more := func(readout string, mark func() bool) {
		for i := range 36 {
			key := fmt.Sprint("k", i%12)
			if !open[key] {
				begun[key] = append(begun[key], readout)
			}
			end := mark()
			open[key] = !end
			seqs[key]++
			p := pipelinetest.One(key, seqs[key], 2, rng.Float32(), end)
			sent[key] = append(sent[key], p)
			b.publishPackets([]pipelinetest.Packet{p})
		}
	}
	sometimes := func() bool { return rng.IntN(4) == 0 }
	names := map[string]string{}
	for name, l := range byName(t, m) {
		names[l.Name] = name
	}
	active := names["test"]
	for _, step := range []struct {
		to      int
		promote string
	}{{5, "b"}, {2, "c"}, {7, "b"}, {3, "c"}} {
		r := b.startStage(m, c)
		more(active, sometimes)
		r.waitUntil(t, "all input", func(s pipeline.Stats) bool { return s.Lag == 0 })
		if _, err := operate.Promote(t.Context(), b.js, "moves", operate.PromoteOptions{Readout: b.publishReadout("moves", m, step.promote), Who: "anna"}); err != nil {
			t.Fatal(err)
		}
		b.awaitTaken("moves")
		active = names[step.promote]
		more(active, sometimes)
		r.waitUntil(t, "all input", func(s pipeline.Stats) bool { return s.Lag == 0 })
		r.stopStage(t)
		b.resizeJob(m, c, step.to)
		c.Partitions = step.to
	}
	r := b.startStage(m, c)
	more(active, func() bool { return true })
	want := 0
	alones := map[string]map[string][]codec.Prediction{}
	for name, l := range byName(t, m) {
		alones[name] = map[string][]codec.Prediction{}
		want = 0
		for key, packets := range sent {
			alones[name][key] = predictAlone(t, withReadout(m, l), codec.Reject, packets...)
			want += len(alones[name][key])
		}
	}
	got := nameReadouts(t, m, b.awaitPredictions("moves", want))
	r.stopStage(t)
	checkReadouts(t, m, got, alones)
	for key, ps := range got {
		sequence := 0
		for i, p := range ps {
			if p.Readout != begun[key][sequence] {
				t.Errorf("stream %s, prediction %d of sequence %d: readout %q, want %q", key, i, sequence, p.Readout, begun[key][sequence])
			}
			if p.Flags&outcome.FlagEarly == 0 {
				sequence++
			}
		}
	}
}

// A torn entry of the registry is not promoted. If the entry is torn afterwards, a
// worker in need of the readout keeps the previous readout, until the repair of the
// entry.
func TestPromotionOfTornEntry(t *testing.T) {
	t.Parallel()
	m := severalReadouts(t, reservoir.Policy{Kind: reservoir.Count, Length: 1})
	b, book := newRig(t), &pipelinetest.LogBook{}
	b.log = book.Logger()
	c := quickConfig("torn", 1)
	first := withReadout(m, m.Readouts[0])
	r := b.startStage(first, c)
	torn := func() {
		s, err := b.js.Stream(t.Context(), wire.ModelStream("torn"))
		if err == nil {
			err = s.Purge(t.Context(), jetstream.WithPurgeSubject("$O."+wire.ModelBucket("torn")+".C.>"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	promote := func(name string) error {
		_, err := operate.Promote(t.Context(), b.js, "torn", operate.PromoteOptions{Readout: name, Who: "a"})
		return err
	}
	name := b.publishReadout("torn", m, "b")
	torn()
	if err := promote(name); !errors.Is(err, registry.ErrDamaged) {
		t.Errorf("promotion of a torn entry: %v", err)
	}
	if all, err := operate.PromotionsOf(t.Context(), b.js, "torn"); err != nil || len(all.Promotions) > 0 {
		t.Errorf("%+v, %v; want no promotion", all, err)
	}
	b.publishReadout("torn", m, "test")
	b.publishReadout("torn", m, "b")
	r.stopStage(t)
	if err := promote(name); err != nil {
		t.Fatal(err)
	}
	torn()
	r = b.startStage(first, c)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", 1, 1, .5, false)})
	pipelinetest.Until(t, "the worker's warning", func() bool { return book.Lines("this worker cannot use it") > 0 })
	b.publishReadout("torn", m, "b")
	b.awaitTaken("torn")
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", 2, 1, .5, false)})
	got := b.awaitPredictions("torn", 2)["a"]
	if got[0].Readout != "" || got[1].Readout != name {
		t.Errorf("readouts %q and %q, want the first one and %q", got[0].Readout, got[1].Readout, name)
	}
	r.stopStage(t)
}
