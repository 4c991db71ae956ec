package pipeline

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

func TestSpellHeaders(t *testing.T) {
	for _, c := range []struct {
		in, want nats.Header
		err      string
	}{
		{nil, nil, ""},
		{nats.Header{"eusn-seq": {"1"}, "EUSN-END": {"true"}}, nats.Header{HeaderSeq: {"1"}, HeaderEnd: {"true"}}, ""},
		{nats.Header{"Eusn-CRC": {"0"}, "eusn-Incarnation": {"a", "b"}, HeaderSeq: {"2"}}, nats.Header{HeaderCRC: {"0"}, HeaderIncarnation: {"a", "b"}, HeaderSeq: {"2"}}, ""},
		{nats.Header{"eusn-kind": {"idle"}, "eusn-other": {""}, "seq": {"1"}, "Nats-Msg-Id": {"x"}}, nats.Header{"eusn-kind": {"idle"}, "eusn-other": {""}, "seq": {"1"}, "Nats-Msg-Id": {"x"}}, ""},
		{nats.Header{"eusn-seq": {"1"}, HeaderSeq: {"2"}}, nats.Header{"eusn-seq": {"1"}, HeaderSeq: {"2"}}, "headers Eusn-Seq and eusn-seq are the same but for case: give it once, as Eusn-Seq"},
		{nats.Header{"eusn-end": {"1"}, "EUSN-END": {"1"}}, nats.Header{"eusn-end": {"1"}, "EUSN-END": {"1"}}, "headers EUSN-END and eusn-end"},
	} {
		h := maps.Clone(c.in)
		err := spellHeaders(h)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%v: error %v, want %q", c.in, err, c.err)
		}
		if got, want := fmt.Sprint(h), fmt.Sprint(c.want); got != want {
			t.Errorf("%v became %v, want %v", c.in, got, want)
		}
	}
}

// Headers in another case count as ours do: repeats are dropped, gaps are
// seen, damage is found and sequences end.
func TestHeadersInAnyCase(t *testing.T) {
	l := newLone(t, testModel(t, 2, reservoir.Policy{Kind: reservoir.Marked}), Config{Reorder: 1})
	say := func(h map[string]string, n int) packet {
		p := one("k", 0, n, 0.5, false)
		p.header = h
		return p
	}
	got := l.feedAll(
		say(map[string]string{"eusn-seq": "1", "eusn-incarnation": "a"}, 3),
		say(map[string]string{"eusn-seq": "1", "eusn-incarnation": "a"}, 3),
		say(map[string]string{"EUSN-SEQ": "2", "EUSN-INCARNATION": "a", "EUSN-END": "true"}, 2),
		say(map[string]string{"eusn-seq": "5", "eusn-incarnation": "a", "eusn-end": "true"}, 2),
		say(map[string]string{"eusn-seq": "6", "eusn-incarnation": "a"}, 2),
	)
	want := []codec.Prediction{{Stream: "k", Seq: 2, Row: 1}, {Stream: "k", Seq: 5, Row: 1, Flags: codec.FlagGap}}
	if len(got) != len(want) {
		t.Fatalf("%d predictions, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		if g := got[i]; g.Stream != w.Stream || g.Seq != w.Seq || g.Row != w.Row || g.Flags != w.Flags {
			t.Errorf("prediction %d: %+v, want %+v", i, g, w)
		}
	}
	if n := l.counters.duplicates.Load(); n != 1 {
		t.Errorf("%d repeats, want 1", n)
	}
	for _, h := range []map[string]string{{"eusn-crc": "00000000"}, {"eusn-end": "yes"}, {"eusn-seq": "0"}, {"eusn-end": "true", HeaderEnd: "false"}} {
		l.b.reset()
		if err := l.ingest(l.b, l.job(say(h, 1))); err != nil || len(l.b.dead) != 1 {
			t.Errorf("%v: error %v, %d dead letters, want 1", h, err, len(l.b.dead))
		}
	}
}

// A message whose headers bear their names costs no allocation.
func TestSpellHeadersAllocates(t *testing.T) {
	h := nats.Header{HeaderSeq: {"1"}, HeaderIncarnation: {"a"}, HeaderCRC: {"0"}, "Nats-Msg-Id": {"x"}}
	if n := testing.AllocsPerRun(100, func() {
		if err := spellHeaders(h); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkSpellHeaders(b *testing.B) {
	h := nats.Header{HeaderSeq: {"1"}, HeaderIncarnation: {"a"}, HeaderCRC: {"0"}}
	for b.Loop() {
		if err := spellHeaders(h); err != nil {
			b.Fatal(err)
		}
	}
}
