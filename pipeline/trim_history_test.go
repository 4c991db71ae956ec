package pipeline_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Records do not apply to another input: recreated, without the last messages, or with
// other messages in their places. A new job can still read the remaining input, so
// nothing is removed.
func TestTrimOtherHistory(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	const n = 12
	b.answerPackets(m, quickConfig("blue", 1), endedSequences("s", n, 1), n)
	input := func() jetstream.Stream {
		t.Helper()
		in, err := b.js.Stream(t.Context(), wire.InputStream("blue"))
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	refused := func(words ...string) {
		t.Helper()
		_, err := admin.Trim{Job: "blue"}.Run(t.Context(), b.js)
		if !errors.Is(err, admin.ErrHistory) {
			t.Errorf("%v, want a refusal", err)
		}
		mentions(t, err, words...)
		if in := input().CachedInfo(); in.State.FirstSeq != 1 {
			t.Fatalf("input was removed: %+v", in.State)
		}
	}
	last, r := b.lastRecord("blue", 0)
	say := func(key, value string) { // in the record
		h := nats.Header{}
		for k, v := range last.Header {
			h[k] = v
		}
		h.Del(jetstream.ExpectedLastSubjSeqHeader)
		h.Set(key, value)
		if _, err := b.js.PublishMsg(t.Context(), &nats.Msg{Subject: last.Subject, Header: h, Data: last.Data}); err != nil {
			t.Fatal(err)
		}
	}
	say(wire.HeaderInSeq, fmt.Sprint(n+1))
	refused("ends at message 12", "message 13")
	say(wire.HeaderInTime, fmt.Sprint(r.Mark.Time-int64(time.Hour)))
	refused("message 12 of BLUE-IN was stored", "restored backup")
	say(wire.HeaderWorker, "as before")
	if d := b.trimInput(admin.Trim{Job: "blue", Dry: true}); d.Begins != n+1 {
		t.Errorf("of the input that the record is of: %+v", d)
	}
	// New messages in a range that the record declares empty for the partition.
	b.publishPackets(endedSequences("t", 3, 3))
	say(wire.HeaderEmptyTo, fmt.Sprint(n+2))
	if d := b.trimInput(admin.Trim{Job: "blue", Dry: true}); d.Begins != n+1 {
		t.Errorf("of messages that came instead of others: %+v", d)
	}
	config := input().CachedInfo().Config
	if err := b.js.DeleteStream(t.Context(), config.Name); err != nil {
		t.Fatal(err)
	}
	if _, err := b.js.CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	b.publishPackets(endedSequences("s", 2*n, 2))
	refused("BLUE-IN was created", "record of partition 0")
	if d := b.trimInput(admin.Trim{Job: "blue", Without: []string{"blue"}}); d.Begins != 2*n+1 {
		t.Errorf("the job needs nothing, as somebody says: %+v", d)
	}
}
