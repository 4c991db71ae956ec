package shard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// A missing value becomes the stream's previous value, or the training mean at the
// start of a sequence; the affected prediction is flagged, its neighbors are not.
func TestHoldMissing(t *testing.T) {
	marked := reservoir.Policy{Kind: reservoir.Marked}
	t.Run("no front end", func(t *testing.T) {
		m := pipelinetest.Model(t, 3, marked)
		holdMissing(t, m, m.Network.Norm.Mean)
	})
	t.Run("front end", func(t *testing.T) {
		m := pipelinetest.Model(t, 3, marked)
		m.Front = &reservoir.Front{Normalize: 3, Fill: []float32{7, -2}}
		holdMissing(t, m, m.Front.Fill)
	})
}

func holdMissing(t *testing.T, m *reservoir.Model, mean []float32) {
	t.Helper()
	nan := pipelinetest.NaN
	a := newLone(t, m, Config{NonFinite: codec.Hold})
	got := a.feedAll(
		pipelinetest.Rows("s", 1, false, nan, 1, 2, nan, nan, 3), pipelinetest.Rows("s", 2, true, nan, 4, 5, nan),
		pipelinetest.Rows("s", 3, true, 7, nan), pipelinetest.Rows("s", 4, true, 1, 2))
	exp := newLone(t, m, Config{}).feedAll(
		pipelinetest.Rows("s", 1, false, mean[0], 1, 2, 1, 2, 3), pipelinetest.Rows("s", 2, true, 2, 4, 5, 4),
		pipelinetest.Rows("s", 3, true, 7, mean[1]), pipelinetest.Rows("s", 4, true, 1, 2))
	for i := range exp {
		want := outcome.FlagHeld
		if i == 2 {
			want = 0
		}
		if !pipelinetest.SameBits(got[i].Scores, exp[i].Scores) || got[i].Flags != want {
			t.Errorf("prediction %d: %+v, want scores %v, flags %v", i, got[i], exp[i].Scores, want)
		}
	}
	if n := a.counters.Held.Load(); n != 6 {
		t.Errorf("%d values counted as held, want 6", n)
	}

	// Two streams in one message hold separate last values.
	multi := pipelinetest.Packet{Key: "g", Seq: 1, Header: map[string]string{wire.HeaderEnd: "true"}, Batch: codec.Batch{
		Rows: 4, X: []float32{1, 2, 3, 4, nan, 5, 6, nan}, Keys: []string{"a", "b"}, Key: []int32{0, 1, 0, 1},
	}}
	filled := multi
	filled.Batch.X = []float32{1, 2, 3, 4, 1, 5, 6, 4}
	g, e := newLone(t, m, Config{NonFinite: codec.Hold}).feedAll(multi), newLone(t, m, Config{}).feedAll(filled)
	if len(g) != 2 || !pipelinetest.SameBits(g[0].Scores, e[0].Scores) || !pipelinetest.SameBits(g[1].Scores, e[1].Scores) || g[0].Row != 2 || g[1].Row != 3 {
		t.Errorf("multi-stream: %+v, want %+v", g, e)
	}

	// Zero: flagged as well, value 0.
	z, e := newLone(t, m, Config{NonFinite: codec.Zero}).feedAll(pipelinetest.Rows("s", 1, true, 1, nan)), newLone(t, m, Config{}).feedAll(pipelinetest.Rows("s", 1, true, 1, 0))
	if !pipelinetest.SameBits(z[0].Scores, e[0].Scores) || z[0].Flags != outcome.FlagHeld {
		t.Errorf("zero: %+v, want %v flagged", z[0], e[0].Scores)
	}
}

// The pool grows with the open sequences, keeps their states, and reports its limit.
func TestPoolGrows(t *testing.T) {
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	const n = 3*firstSlots + 5
	l := newLone(t, m, Config{})
	var first, second, whole []pipelinetest.Packet
	for i := range n {
		key, v := fmt.Sprintf("k%d", i), float32(i)/n
		first = append(first, pipelinetest.Rows(key, 1, false, v, -v))
		second = append(second, pipelinetest.Rows(key, 2, true, -v, 1))
		whole = append(whole, pipelinetest.Rows(key, 1, true, v, -v, -v, 1))
	}
	l.feedAll(first...)
	if l.pool.usedSlots() != n || l.pool.engine.Slots() != 4*firstSlots {
		t.Fatalf("%d of %d slots used, want %d of %d", l.pool.usedSlots(), l.pool.engine.Slots(), n, 4*firstSlots)
	}
	got := l.feedAll(second...)
	exp := newLone(t, m, Config{}).feedAll(whole...)
	for i := range exp {
		if !pipelinetest.SameBits(got[i].Scores, exp[i].Scores) {
			t.Fatalf("stream %d: state was lost in growing", i)
		}
	}
	if l.pool.usedSlots() != 0 || l.counters.Slots.Load() != 0 {
		t.Errorf("%d slots in use after all sequences have ended", l.pool.usedSlots())
	}

	l = newLone(t, m, Config{MaxSlots: 2})
	l.feedAll(first[:2]...)
	err := l.takeJob(l.b, l.jobOf(first[2]))
	if !errors.Is(err, errSlots) {
		t.Fatalf("a third open sequence with room for two: %v", err)
	}
	pipelinetest.Mentions(t, err, "max_slots", "all 2")
}

// Memory of streams is limited: among the streams silent longest, a stream between
// sequences is forgotten, and a stream in a sequence only if there is no other.
func TestStreamsForgotten(t *testing.T) {
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	l := newLone(t, m, Config{MaxStreams: 3})
	l.feedAll(pipelinetest.Rows("open", 1, false, 1, 1), pipelinetest.Rows("old", 1, true, 1, 1), pipelinetest.Rows("mid", 1, true, 1, 1), pipelinetest.Rows("new", 1, true, 1, 1))
	if l.p.State.Sources["old"] != nil || l.p.State.Sources["open"] == nil || l.p.State.Sources["mid"] == nil || l.p.State.Len() != 3 {
		t.Fatalf("remembered: %v", l.p.State.Sources)
	}
	if streams, forgotten := l.counters.Streams.Load(), l.counters.Forgotten.Load(); streams != 3 || forgotten != 1 {
		t.Errorf("counted %d streams and %d forgotten", streams, forgotten)
	}
	if got := l.feedAll(pipelinetest.Rows("open", 2, true, 1, 1)); len(got) != 1 || got[0].Flags != 0 {
		t.Errorf("the open stream: %+v", got)
	}
	l = newLone(t, m, Config{MaxStreams: 2})
	l.feedAll(pipelinetest.Rows("old", 1, false, 1, 1), pipelinetest.Rows("open", 1, false, 1, 1), pipelinetest.Rows("more", 1, false, 1, 1))
	if l.p.State.Sources["old"] != nil || l.p.State.Sources["open"] == nil || l.p.State.Sources["more"] == nil {
		t.Errorf("remembered: %v", l.p.State.Sources)
	}
	if streams, fresh, abandoned, used := l.counters.Streams.Load(), l.counters.New.Load(), l.counters.Abandoned.Load(), l.pool.usedSlots(); streams != 2 || fresh != 3 || abandoned != 1 || used != 2 {
		t.Errorf("counted %d streams, %d new, %d sequences abandoned, %d slots in use; want 2, 3, 1, 2", streams, fresh, abandoned, used)
	}
	if got := l.feedAll(pipelinetest.Rows("open", 2, true, 1, 1)); len(got) != 1 || got[0].Flags != 0 {
		t.Errorf("the stream that was in use: %+v", got)
	}
	if got := l.feedAll(pipelinetest.Rows("old", 0, true, 1, 1)); len(got) != 1 || got[0].Flags != outcome.FlagGap {
		t.Errorf("the stream that comes back: %+v, want the flag gap", got)
	}
	// Garbage on many keys is limited, too.
	l = newLone(t, m, Config{MaxStreams: 5})
	for i := range 50 {
		if err := l.takeJob(l.b, l.jobOf(pipelinetest.Packet{Key: fmt.Sprintf("k%d", i), Raw: []byte("?")})); err != nil {
			t.Fatal(err)
		}
	}
	if len(l.p.State.Sources) > 5 || l.p.State.Len() > 5 {
		t.Errorf("%d keys, %d streams remembered", len(l.p.State.Sources), l.p.State.Len())
	}
}

// A silence and a loss together: the lost samples may belong to either side.
func TestGapFlagsBothSides(t *testing.T) {
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Gap, Gap: 10})
	at := func(seq uint64, times ...int64) pipelinetest.Packet {
		return pipelinetest.Packet{Key: "s", Seq: seq, Batch: codec.Batch{Rows: len(times), X: make([]float32, 2*len(times)), Times: times}}
	}
	l := newLone(t, m, Config{Reorder: -1})
	got := pipelinetest.Flags(l.feedAll(at(1, 0, 1), at(3, 50, 51), at(4, 100, 101), at(5, 200)))
	if want := "1.1:gap 3.1:gap 4.1:"; got != want {
		t.Errorf("predictions %q, want %q", got, want)
	}
	l.b.Reset()
	if err := l.takeJob(l.b, l.jobOf(pipelinetest.Rows("s", 6, false, 1, 1))); err != nil {
		t.Fatal(err)
	}
	if len(l.b.Dead) != 1 || !strings.Contains(l.b.Dead[0].Reason, "ts") {
		t.Errorf("no times under the gap policy: %+v", l.b.Dead)
	}
}

// An end without samples ends open sequences: of one stream, and of all streams of a
// gateway.
func TestEndWithoutRows(t *testing.T) {
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	l := newLone(t, m, Config{})
	multi := pipelinetest.Packet{Key: "g", Seq: 1, Batch: codec.Batch{Rows: 3, X: make([]float32, 6), Keys: []string{"b", "a"}, Key: []int32{0, 1, 0}}}
	end := func(key string, seq uint64) pipelinetest.Packet { return pipelinetest.Rows(key, seq, true) }
	got := l.feedAll(end("s", 1), pipelinetest.Rows("s", 2, false, 1, 1, 2, 2), end("s", 3), end("s", 4), multi, end("g", 2))
	var s []string
	for _, p := range got {
		s = append(s, fmt.Sprintf("%s@%d.%d", p.Stream, p.Seq, p.Row))
	}
	if got, want := strings.Join(s, " "), "s@2.1 a@1.1 b@1.2"; got != want {
		t.Errorf("predictions %s, want %s", got, want)
	}
}

// A new incarnation restarts the numbers from 1; an open sequence is flagged.
func TestIncarnation(t *testing.T) {
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	of := func(p pipelinetest.Packet, inc string) pipelinetest.Packet {
		p.Header[wire.HeaderIncarnation] = inc
		return p
	}
	l := newLone(t, m, Config{})
	got := pipelinetest.Flags(l.feedAll(of(pipelinetest.Rows("s", 1, false, 1, 1), "a"), of(pipelinetest.Rows("s", 1, false, 1, 1), "a"), of(pipelinetest.Rows("s", 1, true, 1, 1), "b"), of(pipelinetest.Rows("s", 2, true, 1, 1), "b")))
	if want := "1.0:gap 2.0:"; got != want || l.counters.Duplicates.Load() != 1 {
		t.Errorf("%q with %d duplicates, want %q with 1", got, l.counters.Duplicates.Load(), want)
	}
}

// Dropping a partition after a failed installation reverts the partition's counters.
func TestAdoptFails(t *testing.T) {
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	first := newLone(t, m, Config{})
	first.feedAll(pipelinetest.Rows("a", 1, false, 1, 2), pipelinetest.Rows("b", 1, false, 1, 2), pipelinetest.Rows("b", 3, false, 1, 2))
	if err := first.updateDigest(); err != nil {
		t.Fatal(err)
	}
	raw, err := first.encodeState()
	if err != nil {
		t.Fatal(err)
	}
	l := newLone(t, m, Config{MaxSlots: 1})
	decoded, err := state.Decode(raw, l.Machine.Shape, 0)
	if err != nil {
		t.Fatal(err)
	}
	p := partitionOf(decoded, 0)
	ctx, stop := context.WithCancel(t.Context())
	p.Owner = &testOwner{}
	stop()
	l.StoreRows(nil, ctx) // the store of rows is not waited for any more
	if err := l.InstallPartition(l.b, p); err != nil || !errors.Is(p.Owner.(*testOwner).err, store.ErrUnfinished) {
		t.Fatalf("installing two rows into one slot: %v, ownership %v, want it to end", err, p.Owner.(*testOwner).err)
	}
	l.dropPartition(p)
	streams, slots, away, parked := l.counters.Streams.Load(), l.counters.Slots.Load(), l.counters.Away.Load(), l.counters.Parked.Load()
	if streams != 0 || slots != 0 || away != 0 || parked != 0 {
		t.Errorf("%d streams, %d slots, %d rows away, %d messages held, want none", streams, slots, away, parked)
	}
}
