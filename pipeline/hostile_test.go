package pipeline_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// oneDead feeds one message that should become a dead letter among good messages of the
// key "good", through a real server, and returns the dead letter. All good messages
// must be answered, also by a stage that rereads all input.
func oneDead(t *testing.T, c pipeline.Config, bad pipelinetest.Packet) consumer.DeadLetter {
	t.Helper()
	c.StopTimeout = 50 * time.Millisecond // a crashed stage waits for an answer this long
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	r := b.startStage(m, c)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("good", 1, 3, 1, false), bad, pipelinetest.One("good", 2, 3, 1, true)})
	b.settleMessages(r, 3)
	r.crashStage(t) // nothing stored: the next run replays the input
	b.expireMembers(c.Job)
	r = b.startStage(m, c)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("good", 3, 2, 1, true)})
	b.settleMessages(r, 4)
	r.stopStage(t)
	if got := flags(b.readPredictions(c.Job)["good"]); got != "2.2: 3.1:" {
		t.Errorf("good messages: predictions %q", got)
	}
	dead := b.deadLetters(c.Job)
	if len(dead) != 1 {
		t.Fatalf("%d dead letters, want 1", len(dead))
	}
	return dead[0]
}

// A message that the stage cannot use as intended becomes a dead letter with the
// reason; it neither stops the stage nor leaves data undecodable for readers.
func TestHostileMessages(t *testing.T) {
	for name, c := range map[string]struct {
		bad  pipelinetest.Packet
		want string
	}{
		"key not UTF-8":    {pipelinetest.One("\xff\xfe\xfd", 1, 1, 1, true), `key "\xff\xfe\xfd"`},
		"long incarnation": {pipelinetest.One("x", 1, 1, 1, true).With(wire.HeaderIncarnation, strings.Repeat("i", 129)), "129 bytes, want at most 128"},
		"end mark":         {pipelinetest.One("x", 1, 1, 1, false).With(wire.HeaderEnd, "yes"), `header Eusn-End is "yes"`},
		"end mark twice":   {pipelinetest.One("x", 1, 1, 1, false).With(wire.HeaderEnd, "true").With("eusn-end", "false"), "headers Eusn-End and eusn-end are the same but for case"},
		"empty":            {pipelinetest.Packet{Key: "x", Seq: 1, Raw: []byte{}}, "empty message"},
		"long number":      {pipelinetest.One("x", 0, 1, 1, true).With(wire.HeaderSeq, strings.Repeat("\x7f", 60000)), "header Eusn-Seq"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := oneDead(t, pipeline.Config{Job: "hostile", Partitions: 1}, c.bad)
			if !strings.Contains(d.Reason, c.want) || len(d.Reason) > 1<<10 {
				t.Errorf("reason %q (%d bytes) does not say %q", d.Reason, len(d.Reason), c.want)
			}
		})
	}
}

// Headers near the server's limit leave room for the reason; a dead letter counts the
// headers left out. No byte of the payload is lost for them.
func TestDeadLetterOfLongHeaders(t *testing.T) {
	t.Parallel()
	bad := pipelinetest.Packet{Key: "x", Seq: 1, Raw: bytes.Repeat([]byte("x"), pipeline.Defaults().MaxMessage-65<<10), Header: map[string]string{"Short": strings.Repeat("s", 3940)}} // 65.48 kB with the long headers
	for i := range 6 {
		bad.Header[fmt.Sprint("Long-", i)] = strings.Repeat("v", 10<<10)
	}
	d := oneDead(t, pipeline.Config{Job: "headers", Partitions: 1}, bad)
	if h := d.Header; h.Get(wire.HeaderDropped) != "6" || len(h.Get("Short")) != 3940 || h.Get(wire.HeaderSeq) != "1" || h.Get(wire.HeaderTruncated) != "" {
		t.Errorf("headers %.300q", h)
	}
	if !bytes.Equal(d.Data, bad.Raw) || !strings.Contains(d.Reason, "codec: ") {
		t.Errorf("%d bytes, reason %q", len(d.Data), d.Reason)
	}
}

// One message with more streams than the limit stops no partition.
func TestCrowdedMessage(t *testing.T) {
	for name, c := range map[string]struct {
		pipeline.Config
		n    int
		want string
	}{
		"streams": {pipeline.Config{}, pipeline.Defaults().MaxStreams + 1, "16385 new streams"},
		"beside":  {pipeline.Config{MaxStreams: 40}, 40, "max_streams 40"}, // "good" is open
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.Job, c.Partitions = "crowd", 1
			if d := oneDead(t, c.Config, pipelinetest.Crowd(c.n)); !strings.Contains(d.Reason, c.want) {
				t.Errorf("reason %q does not say %q", d.Reason, c.want)
			}
		})
	}
}

// A held message is in the snapshot with its headers, for any bytes: the next owner
// must be able to read it.
func TestHeldHeadersComeBack(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := pipeline.Config{Job: "nul", Partitions: 1}
	odd := pipelinetest.One("s", 3, 2, 1, true).With("X-Odd", "a\x00\x00b\x00")
	b.answerPackets(m, c, []pipelinetest.Packet{pipelinetest.One("s", 1, 2, 1, false), odd}, 2)
	r := b.startStage(m, c)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("s", 2, 2, 1, false)})
	b.settleMessages(r, 3) // two of them in the snapshot
	r.stopStage(t)
	if got := flags(b.readPredictions(c.Job)["s"]); got != "3.1:reordered" {
		t.Errorf("predictions %q", got)
	}
}
