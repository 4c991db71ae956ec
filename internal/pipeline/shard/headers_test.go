package shard

import (
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Headers in another case count as ours do: repeats are dropped, gaps are
// seen, damage is found and sequences end.
func TestHeadersInAnyCase(t *testing.T) {
	l := newLone(t, pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked}), Config{Reorder: 1})
	say := func(h map[string]string, n int) pipelinetest.Packet {
		p := pipelinetest.One("k", 0, n, 0.5, false)
		p.Header = h
		return p
	}
	got := l.feedAll(
		say(map[string]string{"eusn-seq": "1", "eusn-incarnation": "a"}, 3),
		say(map[string]string{"eusn-seq": "1", "eusn-incarnation": "a"}, 3),
		say(map[string]string{"EUSN-SEQ": "2", "EUSN-INCARNATION": "a", "EUSN-END": "true"}, 2),
		say(map[string]string{"eusn-seq": "5", "eusn-incarnation": "a", "eusn-end": "true"}, 2),
		say(map[string]string{"eusn-seq": "6", "eusn-incarnation": "a"}, 2),
	)
	want := []codec.Prediction{{Stream: "k", Seq: 2, Row: 1}, {Stream: "k", Seq: 5, Row: 1, Answer: outcome.Answer{Flags: outcome.FlagGap}}}
	if len(got) != len(want) {
		t.Fatalf("%d predictions, want %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		if g := got[i]; g.Stream != w.Stream || g.Seq != w.Seq || g.Row != w.Row || g.Flags != w.Flags {
			t.Errorf("prediction %d: %+v, want %+v", i, g, w)
		}
	}
	if n := l.counters.Duplicates.Load(); n != 1 {
		t.Errorf("%d repeats, want 1", n)
	}
	for _, h := range []map[string]string{{"eusn-crc": "00000000"}, {"eusn-end": "yes"}, {"eusn-seq": "0"}, {"eusn-end": "true", wire.HeaderEnd: "false"}, {"eusn-unreadable": "json: no c0"}} {
		l.b.Reset()
		if err := l.takeJob(l.b, l.jobOf(say(h, 1))); err != nil || len(l.b.Dead) != 1 {
			t.Errorf("%v: error %v, %d dead letters, want 1", h, err, len(l.b.Dead))
			continue
		}
		// Decoded here, the bytes are samples, unlike the gateway's result.
		if why, marked := h["eusn-unreadable"]; marked && (l.b.Dead[0].Reason != "gateway: "+why || l.b.Dead[0].Why != wire.ReasonMalformed) {
			t.Errorf("a payload that a gateway could not read: %+v", l.b.Dead[0])
		}
	}
}
