package state

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// manySeeds are how many random logs a property is tried on; -short, which the
// race detector runs with, needs few: nothing here runs at the same time.
func manySeeds() uint64 {
	if testing.Short() {
		return 100
	}
	return 1000
}

// drawBytes is the bytes of a random log.
func drawBytes(seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, 200+rng.IntN(1200))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// compareWithModel requires from a log the results of the model: predictions, their
// samples, flags and input messages, and dead letters. The machine has any number of
// slots, or few slots: then rows leave, counted in evicted, and return, also in the
// middle of messages.
func compareWithModel(t *testing.T, b []byte, evicted *int) []made {
	t.Helper()
	log := drawLog(b)
	messages := encodeLog(t, log)
	var all []made
	for _, early := range []int{0, 3} {
		m := &model{early: early, reorder: 2, keys: map[string]*modelKey{}}
		for _, e := range log {
			m.takeEntry(e)
		}
		for _, most := range []int{0, 1 + len(b)%5} {
			o := newOwner(t, rulesOf(reservoir.Policy{Kind: reservoir.Marked, Early: early})).limitSlots(most, rand.New(rand.NewPCG(uint64(len(b)), 3)))
			o.feedMessages(messages, func(uint64) bool { return false })
			if !slices.Equal(o.made, m.out) {
				t.Fatalf("early %d, slots %d: %s", early, most, firstDifference(o.made, m.out))
			}
			if !slices.Equal(o.dead, m.dead) {
				t.Fatalf("early %d, slots %d: dead letters of messages %v, want %v", early, most, o.dead, m.dead)
			}
			*evicted += o.evicted
		}
		all = append(all, m.out...)
	}
	return all
}

func firstDifference(got, want []made) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return fmt.Sprintf("prediction %d is missing: %+v", i, want[i])
		case i >= len(want):
			return fmt.Sprintf("prediction %d is one too many: %+v", i, got[i])
		case got[i] != want[i]:
			return fmt.Sprintf("prediction %d is %+v, want %+v", i, got[i], want[i])
		}
	}
	return "none"
}

func TestAgainstModel(t *testing.T) {
	t.Parallel()
	flags, evicted := map[outcome.Flag]int{}, 0
	for seed := range manySeeds() {
		for _, p := range compareWithModel(t, drawBytes(seed), &evicted) {
			for f := outcome.Flag(1); f <= p.flags; f <<= 1 {
				if p.flags&f != 0 {
					flags[f]++
				}
			}
		}
	}
	for _, f := range []outcome.Flag{outcome.FlagGap, outcome.FlagReordered, outcome.FlagPoisonSkipped, outcome.FlagIdle, outcome.FlagEarly} {
		if flags[f] < int(manySeeds()/10) {
			t.Errorf("%d predictions with flag %v: the test has lost its subject", flags[f], f)
		}
	}
	if evicted < int(manySeeds()) {
		t.Errorf("%d rows left their slots: the test has lost its subject", evicted)
	}
	t.Logf("%d rows left their slots", evicted)
}

func FuzzAgainstModel(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(drawBytes(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) { compareWithModel(t, b, new(int)) })
}

// policies are all policies that do not cut by their own length.
var policies = []reservoir.Policy{
	{Kind: reservoir.Marked}, {Kind: reservoir.Marked, Early: 3}, {Kind: reservoir.Count, Length: 4},
	{Kind: reservoir.Window, Length: 6, Hop: 2}, {Kind: reservoir.Window, Length: 4, Hop: 4, Early: 3}, {Kind: reservoir.Endless, Early: 2},
}

// fronts are combined with all policies.
var fronts = []*reservoir.Front{nil, nil, {Decimate: 2}, {Normalize: 3, Envelope: 2, Decimate: 2}, {Center: 4}}

// Batches, row locations, the number of slots and a takeover change neither a
// prediction nor the state. The reference has any number of slots and one message per
// batch.
func compareCuts(t *testing.T, b []byte, seed uint64) {
	t.Helper()
	countCuts(t, b, seed)
}

// countCuts returns how many rows left their slots for want of room.
func countCuts(t *testing.T, b []byte, seed uint64) int {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 2))
	messages := encodeLog(t, drawLog(b))
	rules := rulesOf(policies[rng.IntN(len(policies))])
	rules.Front = fronts[rng.IntN(len(fronts))]
	if rng.IntN(2) == 0 {
		rules.MaxStreams = 3 + rng.IntN(4)
	}
	never := func(uint64) bool { return false }
	now := func(uint64) bool { return true }
	sometimes := func(uint64) bool { return rng.IntN(8) == 0 }

	one := newOwner(t, rules)
	sums := make([]wire.Digest, 1, len(messages)+1)
	for i := range messages {
		one.feedMessages(messages[i:i+1], now)
		sums = append(sums, one.p.Sum)
	}

	most := 0
	if rng.IntN(2) == 0 {
		most = 1 + rng.IntN(5)
	}
	batches := newOwner(t, rules).limitSlots(most, rng)
	batches.spread = rng
	for from := 0; from < len(messages); {
		to := min(len(messages), from+1+rng.IntN(40))
		batches.feedMessages(messages[from:to], sometimes)
		if got := batches.p.Sum; got != sums[to] {
			t.Fatalf("%+v: after message %d the digest is %v in batches, %v one by one", rules.Policy, to, got, sums[to])
		}
		from = to
	}
	if !slices.Equal(batches.made, one.made) || !slices.Equal(batches.dead, one.dead) {
		t.Fatalf("%+v: in batches, %s", rules.Policy, firstDifference(batches.made, one.made))
	}

	// A worker processes up to message crash; it stored a snapshot after message kept
	// and reported answers up to message said. The next worker begins from the
	// snapshot.
	if len(messages) < 3 {
		return batches.evicted
	}
	kept := rng.IntN(len(messages))
	crash := kept + rng.IntN(len(messages)-kept)
	said := kept + rng.IntN(crash-kept+1)
	first := newOwner(t, rules).limitSlots(most, rng)
	first.spread = rng
	first.feedMessages(messages[:kept], never)
	snapshot := first.encodeState()
	if again := first.restoreOwner(snapshot, uint64(kept), 0, sums[kept]).encodeState(); !slices.Equal(again, snapshot) {
		t.Fatalf("%+v: the snapshot of what was restored is another", rules.Policy)
	}
	first.feedMessages(messages[kept:crash], sometimes)
	ahead := 0
	for _, p := range first.made {
		if p.at > uint64(said) {
			ahead++
		}
	}
	second := first.restoreOwner(snapshot, uint64(said), ahead, sums[said])
	second.feedMessages(messages[kept:said], never)
	if second.p.Sum != sums[said] || len(second.made)+len(second.dead) > 0 {
		t.Fatalf("%+v: replayed from %d to %d: digest %v, want %v; %d predictions and %d dead letters, want none", rules.Policy, kept, said, second.p.Sum, sums[said], len(second.made), len(second.dead))
	}
	second.feedMessages(messages[said:], never)
	if got := append(first.made, second.made...); !slices.Equal(got, one.made) || second.p.Sum != sums[len(messages)] {
		t.Fatalf("%+v: taken over at %d from a snapshot of %d, answered up to %d: %s", rules.Policy, crash, kept, said, firstDifference(got, one.made))
	}
	return batches.evicted + first.evicted + second.evicted
}

func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	evicted := 0
	for seed := range manySeeds() {
		evicted += countCuts(t, drawBytes(seed), seed)
	}
	if evicted < int(manySeeds()) {
		t.Errorf("%d rows left their slots: the test has lost its subject", evicted)
	}
	t.Logf("%d rows left their slots", evicted)
}

// Two partitions share a machine and few slots, and no row can be stored. A partition
// that finds no slot fails, possibly in the middle of a message; the predictions and
// the state of the other partition do not change.
func TestNoSlotIsOnePartitionsFault(t *testing.T) {
	t.Parallel()
	failures, outlived := 0, 0
	for seed := range manySeeds() {
		rng := rand.New(rand.NewPCG(seed, 4))
		rules := rulesOf(policies[rng.IntN(len(policies))])
		logs := [][]Message{encodeLog(t, drawLog(drawBytes(seed))), encodeLog(t, drawLog(drawBytes(seed+1000)))}
		one := newOwner(t, rules).limitSlots(4+rng.IntN(16), rng)
		one.nowhere = true
		both := []*owner{one, one.newNeighbor()}
		for at := []int{0, 0}; at[0] < len(logs[0]) || at[1] < len(logs[1]); {
			which := rng.IntN(2)
			if at[which] < len(logs[which]) {
				both[which].applyMessage(forPartition(logs[which][at[which]], which))
				at[which]++
			}
			if rng.IntN(8) == 0 {
				flushAll(both)
			}
		}
		flushAll(both)
		failures += one.failures
		for which, o := range both {
			if o.failed {
				continue
			}
			alone := newOwner(t, rules)
			if which == 1 {
				alone = alone.newNeighbor()
			}
			for i := range logs[which] {
				alone.applyMessage(forPartition(logs[which][i], which))
			}
			alone.endBatch()
			if !slices.Equal(o.made, alone.made) || o.p.Sum != alone.p.Sum {
				t.Fatalf("seed %d: %+v: partition %d beside one that failed: %s; digest %v, want %v", seed, rules.Policy, which, firstDifference(o.made, alone.made), o.p.Sum, alone.p.Sum)
			}
			if both[1-which].failed {
				outlived++
			}
		}
	}
	if few := int(manySeeds() / 10); failures < few || outlived < few {
		t.Errorf("%d partitions found no slot, %d outlived the other: the test has lost its subject", failures, outlived)
	}
	t.Logf("%d partitions found no slot, %d outlived the other", failures, outlived)
}

// forPartition returns a message of a log, with end events for the given partition.
func forPartition(m Message, part int) *Message {
	var e any
	switch wire.Get(m.Header, wire.HeaderKind) {
	case wire.KindIdle:
		e = &wire.IdleEvent{}
	case wire.KindPromote:
		e = &wire.PromoteEvent{}
	default:
		return &m
	}
	if json.Unmarshal(m.Data, e) == nil {
		reflect.ValueOf(e).Elem().FieldByName("Partition").SetInt(int64(part))
		m.Data, _ = json.Marshal(e)
	}
	return &m
}

func FuzzCutAnywhere(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(drawBytes(seed), seed)
	}
	f.Fuzz(compareCuts)
}

// When messages came, by their owner's watch, is no state.
func TestWatchIsNoState(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		messages := encodeLog(t, drawLog(drawBytes(seed)))
		a := newOwner(t, rulesOf(policies[0]))
		a.feedMessages(messages, func(uint64) bool { return false })
		for i := range messages {
			messages[i].Heard = time.Duration(i) * time.Minute
		}
		b := newOwner(t, rulesOf(policies[0]))
		b.feedMessages(messages, func(uint64) bool { return false })
		if a.p.Sum != b.p.Sum || !slices.Equal(a.encodeState(), b.encodeState()) {
			t.Fatal("the state depends on when messages came")
		}
	}
}
