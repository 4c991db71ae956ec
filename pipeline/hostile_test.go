package pipeline

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// oneDead feeds what ought to be one dead letter among good messages of the
// key "good", through a real server, and returns it. The good ones must all
// be answered, also by a stage that reads everything again.
func oneDead(t *testing.T, c Config, bad packet) DeadLetter {
	t.Helper()
	c.StopTimeout = 50 * time.Millisecond // a crashed stage waits for an answer this long
	m := testModel(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	r := b.start(m, c)
	b.publish([]packet{one("good", 1, 3, 1, false), bad, one("good", 2, 3, 1, true)})
	b.settle(r, 3)
	r.crash(t) // nothing stored: the next run replays it
	b.expire(c.Job)
	r = b.start(m, c)
	b.publish([]packet{one("good", 3, 2, 1, true)})
	b.settle(r, 4)
	r.stop(t)
	if got := flags(b.predictions(c.Job)["good"]); got != "2.2: 3.1:" {
		t.Errorf("good messages: predictions %q", got)
	}
	dead := b.deadLetters(c.Job)
	if len(dead) != 1 {
		t.Fatalf("%d dead letters, want 1", len(dead))
	}
	return dead[0]
}

func with(p packet, header, value string) packet {
	p.header[header] = value
	return p
}

// What the stage cannot take as it was meant is a dead letter that says why;
// it neither stops the stage nor leaves anything that readers cannot decode.
func TestHostileMessages(t *testing.T) {
	for name, c := range map[string]struct {
		bad  packet
		want string
	}{
		"key not UTF-8":    {one("\xff\xfe\xfd", 1, 1, 1, true), `key "\xff\xfe\xfd"`},
		"long incarnation": {with(one("x", 1, 1, 1, true), HeaderIncarnation, strings.Repeat("i", maxIncarnation+1)), "129 bytes, want at most 128"},
		"end mark":         {with(one("x", 1, 1, 1, false), HeaderEnd, "yes"), `header Eusn-End is "yes"`},
		"empty":            {packet{key: "x", seq: 1, raw: []byte{}}, "empty message"},
		"long number":      {with(one("x", 0, 1, 1, true), HeaderSeq, strings.Repeat("\x7f", 60000)), "header Eusn-Seq"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := oneDead(t, Config{Job: "hostile", Partitions: 1}, c.bad)
			if !strings.Contains(d.Reason, c.want) || len(d.Reason) > maxReason {
				t.Errorf("reason %q (%d bytes) does not say %q", d.Reason, len(d.Reason), c.want)
			}
		})
	}
}

// Headers near the server's limit leave room for the reason; a dead letter
// says how many it left out. Nothing of the payload is lost for it.
func TestDeadLetterOfLongHeaders(t *testing.T) {
	t.Parallel()
	bad := packet{key: "x", seq: 1, raw: bytes.Repeat([]byte("x"), DefaultMaxMessage-63<<10), header: map[string]string{"Short": "stays"}}
	for i := range 6 {
		bad.header[fmt.Sprint("Long-", i)] = strings.Repeat("v", 10<<10)
	}
	d := oneDead(t, Config{Job: "headers", Partitions: 1}, bad)
	if h := d.Header; h.Get(headerDropped) != "6" || h.Get("Short") != "stays" || h.Get(HeaderSeq) != "1" || h.Get(headerTruncated) != "" {
		t.Errorf("headers %q", h)
	}
	if !bytes.Equal(d.Data, bad.raw) || !strings.Contains(d.Reason, "codec: ") {
		t.Errorf("%d bytes, reason %q", len(d.Data), d.Reason)
	}
}

// An end mark has two words and two digits, in any case.
func TestEndWords(t *testing.T) {
	for word, end := range map[string]bool{"true": true, "TRUE": true, "1": true, "false": false, "False": false, "0": false, "": false} {
		l := newLone(t, testModel(t, 2, reservoir.Policy{Kind: reservoir.Marked}), Config{})
		if got := l.feedAll(with(one("a", 1, 1, 1, false), HeaderEnd, word)); (len(got) == 1) != end {
			t.Errorf("%s %q: %d predictions", HeaderEnd, word, len(got))
		}
	}
}
