package state

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// checkRoom predicts the result of splitByStream: over many small partitions in any
// state, a message with more than one new stream is refused exactly if the message
// would end open sequences.
func TestAdmitsForesees(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 17))
	policies := []reservoir.Policy{
		{Kind: reservoir.Marked}, {Kind: reservoir.Count, Length: 3}, {Kind: reservoir.Window, Length: 4, Hop: 2},
	}
	refused, taken := 0, 0
	for range 3000 {
		rules := rulesOf(policies[rng.IntN(len(policies))])
		rules.MaxStreams = 2 + rng.IntN(6)
		o := newOwner(t, rules)
		next := uint64(0)
		message := func(streams int) *Message {
			next++
			m := encodeLog(t, []entry{drawCrowd(rng, streams)})[0]
			m.Seq = next
			return &m
		}
		for range rng.IntN(4) { // streams of earlier messages
			o.applyMessage(message(2))
			o.endBatch()
		}
		j := message(8)
		src, _ := o.p.findSource(j.Key)
		m := &step{fx: o.fx, out: &o.out, p: o.p, src: src}
		if _, err := o.m.decodePayload(o.fx, j); err != nil {
			t.Fatal(err)
		}
		fresh := 0
		for _, id := range o.m.in.Keys {
			if src.Streams[id] == nil {
				fresh++
			}
		}
		before := o.m.checkRoom(m)
		lost := o.fx.Abandoned
		if err := o.m.splitByStream(m); err != nil {
			t.Fatal(err)
		}
		lost = o.fx.Abandoned - lost
		if foreseen := before != nil; fresh > 1 && foreseen != (lost > 0) || fresh <= 1 && foreseen {
			t.Fatalf("%+v: %d new of %v: admits returns %v, demux ends %d sequences", rules.Policy, fresh, o.m.in.Keys, before, lost)
		}
		if before != nil {
			refused++
		} else {
			taken++
		}
	}
	if refused < 100 || taken < 100 {
		t.Fatalf("%d refused, %d taken: the test has lost its subject", refused, taken)
	}
	t.Logf("%d refused, %d taken", refused, taken)
}

// drawCrowd is a message of up to n streams of twelve, in rows of any order, some
// with end marks.
func drawCrowd(rng *rand.Rand, n int) entry {
	e := entry{key: "crowd", many: true}
	for _, id := range rng.Perm(12)[:1+rng.IntN(n)] {
		for range 1 + rng.IntN(3) {
			e.rows = append(e.rows, sample{fmt.Sprint("id", id), 1, rng.IntN(2) == 0})
		}
	}
	rng.Shuffle(len(e.rows), func(i, j int) { e.rows[i], e.rows[j] = e.rows[j], e.rows[i] })
	return e
}

// Messages on ever new keys leave no more state than MaxStreams allows, in any part of
// the machine.
func TestNewKeysAreBounded(t *testing.T) {
	t.Parallel()
	rules := rulesOf(reservoir.Policy{Kind: reservoir.Marked})
	rules.MaxStreams = 5
	o := newOwner(t, rules)
	var log []entry
	for i := range 500 {
		log = append(log, entry{key: fmt.Sprint("k", i), number: 1, end: i%2 == 0, bad: i%3 == 0})
	}
	o.feedMessages(encodeLog(t, log), func(uint64) bool { return true })
	if len(o.p.Sources) != 5 || o.p.Len() != 5 || cap(o.p.dirtySources) > 16 || cap(o.p.dirty) > 16 {
		t.Errorf("%d keys and %d streams remembered, want 5; room for %d and %d changed ones, want 16 at most", len(o.p.Sources), o.p.Len(), cap(o.p.dirtySources), cap(o.p.dirty))
	}
}

// Headers of a held message survive a snapshot unchanged, for any bytes.
func TestHeldHeaders(t *testing.T) {
	t.Parallel()
	want := wire.Header{"K\x00": {"\x00", "v"}, wire.HeaderEnd: {"true"}}
	if h, err := parseHeader(headerText(want)); err != nil || !reflect.DeepEqual(h, want) {
		t.Errorf("%q, %v", h, err)
	}
}

// A message costs no memory once the slices have grown.
func TestApplyAllocates(t *testing.T) {
	o := newOwner(t, rulesOf(reservoir.Policy{Kind: reservoir.Count, Length: 16}))
	e := entry{key: "s"}
	for i := range 64 {
		e.rows = append(e.rows, sample{"s", float32(i), false})
	}
	m := encodeLog(t, []entry{e})[0]
	m.Seq = 0
	apply := func() {
		m.Seq++
		*o.fx = Effects{X: o.fx.X[:0], Runs: o.fx.Runs[:0], Dead: o.fx.Dead[:0], Notes: o.fx.Notes[:0]}
		o.out = o.out.WithoutRows()
		if err := o.m.Apply(o.p, &m, o.fx, &o.out); err != nil {
			t.Fatal(err)
		}
	}
	apply()
	if n := testing.AllocsPerRun(100, apply); n != 0 {
		t.Errorf("%v allocations per message of 64 samples, want 0", n)
	}
	if len(o.out.Preds) != 4 || o.out.Preds[0].Flags != outcome.Flag(0) {
		t.Errorf("%d predictions, want 4 without flags: the test has lost its subject", len(o.out.Preds))
	}
}

// Keys whose held messages wait for a message that never comes do not fill a partition
// permanently: the keys are forgotten, and the held messages become dead letters.
func TestHeldKeysAreBounded(t *testing.T) {
	t.Parallel()
	rules := rulesOf(reservoir.Policy{Kind: reservoir.Count, Length: 3})
	rules.MaxStreams = 5
	o := newOwner(t, rules)
	var log []entry
	for i := range 50 {
		k := fmt.Sprint("k", i)
		log = append(log, entry{key: k, number: 2, rows: []sample{{k, 1, false}}})
	}
	o.feedMessages(encodeLog(t, log), func(uint64) bool { return true })
	if o.p.Len() != 5 || len(o.p.Sources) != 5 || len(o.dead) != 45 {
		t.Errorf("%d streams and %d keys remembered, %d dead letters; want 5, 5, 45", o.p.Len(), len(o.p.Sources), len(o.dead))
	}
	held := 0
	for _, src := range o.p.Sources {
		for i := range src.Held {
			held += src.Held[i].byteSize()
		}
	}
	if held != o.p.HeldBytes {
		t.Errorf("%d bytes are held, and %d counted", held, o.p.HeldBytes)
	}
}
