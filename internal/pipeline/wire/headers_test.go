package wire

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

func TestSpellHeaders(t *testing.T) {
	for _, c := range []struct {
		in, want Header
		err      string
	}{
		{nil, nil, ""},
		{Header{"eusn-seq": {"1"}, "EUSN-END": {"true"}}, Header{HeaderSeq: {"1"}, HeaderEnd: {"true"}}, ""},
		{Header{"Eusn-CRC": {"0"}, "eusn-Incarnation": {"a", "b"}, HeaderSeq: {"2"}}, Header{HeaderCRC: {"0"}, HeaderIncarnation: {"a", "b"}, HeaderSeq: {"2"}}, ""},
		{Header{"eusn-kind": {"idle"}, "eusn-other": {""}, "seq": {"1"}, "Nats-Msg-Id": {"x"}}, Header{"eusn-kind": {"idle"}, "eusn-other": {""}, "seq": {"1"}, "Nats-Msg-Id": {"x"}}, ""},
		{Header{"eusn-seq": {"1"}, HeaderSeq: {"2"}}, Header{"eusn-seq": {"1"}, HeaderSeq: {"2"}}, "headers Eusn-Seq and eusn-seq are the same but for case: give it once, as Eusn-Seq"},
		{Header{"eusn-end": {"1"}, "EUSN-END": {"1"}}, Header{"eusn-end": {"1"}, "EUSN-END": {"1"}}, "headers EUSN-END and eusn-end"},
	} {
		h := maps.Clone(c.in)
		err := SpellHeaders(h)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%v: error %v, want %q", c.in, err, c.err)
		}
		if got, want := fmt.Sprint(h), fmt.Sprint(c.want); got != want {
			t.Errorf("%v became %v, want %v", c.in, got, want)
		}
	}
}

// A message with correctly spelled headers needs no allocation.
func TestSpellHeadersAllocates(t *testing.T) {
	h := Header{HeaderSeq: {"1"}, HeaderIncarnation: {"a"}, HeaderCRC: {"0"}, "Nats-Msg-Id": {"x"}}
	if n := testing.AllocsPerRun(100, func() {
		if err := SpellHeaders(h); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkSpellHeaders(b *testing.B) {
	h := Header{HeaderSeq: {"1"}, HeaderIncarnation: {"a"}, HeaderCRC: {"0"}}
	for b.Loop() {
		if err := SpellHeaders(h); err != nil {
			b.Fatal(err)
		}
	}
}
