package shard

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// eventPacket is an end event as an input message.
func eventPacket(t testing.TB, e wire.IdleEvent) pipelinetest.Packet {
	t.Helper()
	data, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return pipelinetest.Packet{Key: wire.IdleKey(e.Partition, 1), Raw: data, Header: map[string]string{wire.HeaderKind: wire.KindIdle}}
}

// endEvent names the only streams of keys.
func endEvent(after uint64, keys ...string) wire.IdleEvent {
	e := wire.IdleEvent{After: after}
	for _, k := range keys {
		e.Streams = append(e.Streams, wire.StreamName{Key: k, Stream: k})
	}
	return e
}

// An end event ends a sequence like an end mark, and flags the reason.
func TestIdleEndsLikeAMark(t *testing.T) {
	for name, policy := range map[string]reservoir.Policy{"marked": {Kind: reservoir.Marked}, "early": {Kind: reservoir.Marked, Early: 2}} {
		m := pipelinetest.Model(t, 3, policy)
		l, exp := newLone(t, m, Config{}), newLone(t, m, Config{})
		first, second := pipelinetest.Rows("a", 1, false, 1, 2, 3, 4, 5, 6), pipelinetest.Rows("a", 2, true, 7, 8)
		got := l.feedAll(first, eventPacket(t, endEvent(1, "a")), eventPacket(t, endEvent(2, "a")), second)
		first.Header[wire.HeaderEnd] = "true"
		want := exp.feedAll(first, second)
		last := len(want) - 2
		want[last].Flags |= outcome.FlagIdle
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
		}
		if n := l.counters.Idle.Load(); n != 1 || l.pool.usedSlots() != 0 {
			t.Errorf("%s: counted %d ends, %d rows in use", name, n, l.pool.usedSlots())
		}
	}
}

// If the policy fixes the length, an idle sequence is dropped without a prediction and
// its rows are freed; the next sample begins a new sequence.
func TestIdleDiscards(t *testing.T) {
	for _, policy := range []reservoir.Policy{{Kind: reservoir.Count, Length: 3}, {Kind: reservoir.Window, Length: 4, Hop: 2}, {Kind: reservoir.Endless, Early: 4}} {
		m := pipelinetest.Model(t, 3, policy)
		l := newLone(t, m, Config{NonFinite: codec.Hold})
		if got := l.feedAll(pipelinetest.Rows("a", 1, false, 1, 2, 3, 4), eventPacket(t, endEvent(1, "a"))); len(got) != 0 || l.pool.usedSlots() != 0 {
			t.Fatalf("%v: %d rows in use, predictions %+v", policy, l.pool.usedSlots(), got)
		}
		again := pipelinetest.Rows("a", 2, false, pipelinetest.NaN, 1, 2, 1, 3, 1, 4, 1)
		got := l.feedAll(again)
		again.Seq = 1
		want := newLone(t, m, Config{NonFinite: codec.Hold}).feedAll(again)
		for i := range want {
			want[i].Seq = 2
		}
		if len(want) == 0 || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v:\n got %+v\nwant %+v", policy, got, want)
		}
	}
}

// A sample that is in the log before the event wins, for any writer of the event; only
// the named stream is affected.
func TestIdleEventComesTooLate(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	l := newLone(t, m, Config{})
	got := l.feedAll(
		pipelinetest.Rows("a", 1, false, 1, 2), pipelinetest.Rows("b", 1, false, 1, 2), pipelinetest.Rows("a", 2, false, 3, 4), // inputs 1 to 3
		eventPacket(t, endEvent(2, "a", "b", "nobody")), pipelinetest.Rows("a", 3, true, 5, 6))
	if pipelinetest.Flags(got) != "1.0:idle 3.0:" {
		t.Errorf("predictions %q", pipelinetest.Flags(got))
	}
	multi := pipelinetest.Packet{Key: "g", Batch: codec.Batch{Rows: 4, X: []float32{1, 2, 3, 4, 5, 6, 7, 8}, Keys: []string{"u", "v"}, Key: []int32{0, 1, 0, 1}}}
	e := wire.IdleEvent{After: 6, Streams: []wire.StreamName{{Key: "g", Stream: "v"}}}
	if got := l.feedAll(multi, eventPacket(t, e)); len(got) != 1 || got[0].Stream != "v" || !l.p.State.Sources["g"].Streams["u"].Seq.Open() {
		t.Errorf("a gateway's stream: %+v", got)
	}
}

// Messages held for a missing message are used before a sequence ends.
func TestIdleGivesGapsUp(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	l := newLone(t, m, Config{})
	got := l.feedAll(
		pipelinetest.Rows("a", 1, false, 1, 2), pipelinetest.Rows("a", 3, false, 3, 4), // 3 waits
		eventPacket(t, endEvent(2, "a")),                              // not yet
		eventPacket(t, wire.IdleEvent{After: 1, Gaps: []string{"a"}}), // has been heard since
		pipelinetest.Rows("a", 3, false, 3, 4),
		eventPacket(t, wire.IdleEvent{After: 5, Gaps: []string{"a", "x"}}),
		pipelinetest.Rows("a", 4, true, 5, 6))
	if pipelinetest.Flags(got) != "4.0:gap" || len(l.p.State.Sources["a"].Held) != 0 || l.p.State.HeldBytes != 0 {
		t.Errorf("predictions %q, %d held", pipelinetest.Flags(got), len(l.p.State.Sources["a"].Held))
	}
	if got := l.feedAll(pipelinetest.Rows("a", 5, false, 1, 2), eventPacket(t, endEvent(8, "a"))); pipelinetest.Flags(got) != "5.0:idle" {
		t.Errorf("after the gap: %q", pipelinetest.Flags(got))
	}
}

// Forgetting removes every trace of a key.
func TestIdleForgets(t *testing.T) {
	for _, policy := range []reservoir.Policy{{Kind: reservoir.Marked}, {Kind: reservoir.Window, Length: 4, Hop: 2}} {
		l := newLone(t, pipelinetest.Model(t, 3, policy), Config{})
		l.feedAll(pipelinetest.Rows("a", 1, false, 1, 2), pipelinetest.Rows("b", 1, true, 1, 2))
		e := endEvent(2, "a", "b")
		e.Streams[0].Forget, e.Streams[1].Forget = true, true
		l.feedAll(eventPacket(t, e))
		if err := l.updateDigest(); err != nil {
			t.Fatal(err)
		}
		if streams, forgotten := l.counters.Streams.Load(), l.counters.Forgotten.Load(); len(l.p.State.Sources) != 0 || l.p.State.Len() != 0 || l.pool.usedSlots() != 0 || streams != 0 || forgotten != 2 || l.p.State.Sum != (wire.Digest{}) {
			t.Errorf("%v: %d keys, %d rows in use, counted %d streams and %d forgotten, digest %v", policy, len(l.p.State.Sources), l.pool.usedSlots(), streams, forgotten, l.p.State.Sum)
		}
	}
}

// An invalid end event becomes a dead letter and changes nothing.
func TestIdleEventRefused(t *testing.T) {
	l := newLone(t, pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked}), Config{})
	l.feedAll(pipelinetest.Rows("a", 1, false, 1, 2))
	if err := l.updateDigest(); err != nil {
		t.Fatal(err)
	}
	before := l.p.State.Sum
	many := endEvent(1, slices.Repeat([]string{"a"}, wire.IdleEntries+1)...)
	for _, raw := range []string{"", "{", `{"partition":1}`, `{"partition":0,"after":-1}`, `{"partition":0} x`, `{"other":0}`, "[1]", string(eventPacket(t, many).Raw)} {
		l.b.Reset()
		j := l.jobOf(pipelinetest.Packet{Key: wire.IdleKey(0, 1), Raw: []byte(raw), Header: map[string]string{wire.HeaderKind: wire.KindIdle}})
		if err := l.takeJob(l.b, j); err != nil {
			t.Fatal(err)
		}
		if len(l.b.Dead) != 1 || !strings.Contains(l.b.Dead[0].Reason, "end event") {
			t.Errorf("%.40q: dead letters %+v", raw, l.b.Dead)
		}
	}
	foreign := eventPacket(t, endEvent(1, "a"))
	foreign.Key = "k"
	ahead := eventPacket(t, endEvent(l.next+3, "a"))
	for want, p := range map[string]pipelinetest.Packet{`on key "k"`: foreign, "copied from another input": ahead} {
		l.b.Reset()
		if err := l.takeJob(l.b, l.jobOf(p)); err != nil {
			t.Fatal(err)
		}
		if len(l.b.Dead) != 1 || !strings.Contains(l.b.Dead[0].Reason, want) {
			t.Errorf("dead letters %+v, want %q", l.b.Dead, want)
		}
	}
	if err := l.updateDigest(); err != nil {
		t.Fatal(err)
	}
	if l.p.State.Sum != before || len(l.p.State.Sources) != 1 {
		t.Error("it changed the state")
	}
}

// A partition's state does not depend on the messages that shared a batch with the end
// event: a replay cuts the log into other batches.
func TestIdleAnywhereInABatch(t *testing.T) {
	for _, policy := range []reservoir.Policy{{Kind: reservoir.Marked}, {Kind: reservoir.Count, Length: 9}, {Kind: reservoir.Window, Length: 4, Hop: 2}} {
		m := pipelinetest.Model(t, 3, policy)
		packets := []pipelinetest.Packet{pipelinetest.Rows("a", 1, false, 1, 2, 3, 4, 5, 6), eventPacket(t, endEvent(1, "a")), pipelinetest.Rows("a", 2, false, 7, 8)}
		var sums []wire.Digest
		for cuts := range 4 { // a bit per border between two messages
			l := newLone(t, m, Config{})
			for i, p := range packets {
				if err := l.takeJob(l.b, l.jobOf(p)); err != nil {
					t.Fatal(err)
				}
				if last := i == len(packets)-1; !last && cuts>>i&1 == 0 {
					continue
				}
				if err := l.AdvanceBatch(l.b); err != nil {
					t.Fatal(err)
				}
				l.b.Reset()
			}
			if err := l.updateDigest(); err != nil {
				t.Fatal(err)
			}
			if l.pool.usedSlots() != 1 {
				t.Errorf("%v, cuts %02b: %d rows in use, want 1", policy, cuts, l.pool.usedSlots())
			}
			sums = append(sums, l.p.State.Sum)
		}
		for cuts, sum := range sums {
			if sum != sums[0] {
				t.Errorf("%v: cuts %02b give state %v, want %v", policy, cuts, sum, sums[0])
			}
		}
	}
}
