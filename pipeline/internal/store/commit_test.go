package store

import (
	"errors"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
	"github.com/eusn-stream/eusn-stream/pipeline/natsserver"
)

// An answer that is old, or of an earlier connection, is not relied on: nothing
// is sent before the record was read again and is as it was.
func TestOldAnswersAreNotReliedOn(t *testing.T) {
	t.Parallel()
	_, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	c := layout("old")
	if err := EnsureStreams(t.Context(), js, c, pipelinetest.Log(t)); err != nil {
		t.Fatal(err)
	}
	out, err := js.Stream(t.Context(), wire.OutputStream(c.Job))
	if err != nil {
		t.Fatal(err)
	}
	com := &Committer{JS: js, Stream: out, Job: c.Job, Worker: "w", Log: pipelinetest.Log(t), Retries: func() {}}
	if err := com.Claim(t.Context(), nil, func(wire.Record) bool { return false }); err != nil {
		t.Fatal(err)
	}
	commit := func() (sent bool, err error) {
		next := com.Record
		next.Kind, next.InSeq = wire.KindCommit, next.InSeq+1
		com.Begin(nil, next)
		sent = com.future != nil
		return sent, com.Await(t.Context())
	}
	old := func() { com.Heard.at = com.Heard.at.Add(-2 * surely) }
	earlier := func() { com.Heard.reconnects-- }
	for what, unsure := range map[string]func(){"old": old, "of an earlier connection": earlier} {
		if sent, err := commit(); !sent || err != nil {
			t.Fatalf("a commit after an answer: sent %v, %v", sent, err)
		}
		unsure()
		if sent, err := commit(); sent || err != nil {
			t.Errorf("the answer is %s: sent %v before the record was read, then %v", what, sent, err)
		}
		unsure()
		com.Reassure(t.Context())
		if sent, err := commit(); !sent || err != nil {
			t.Errorf("the answer was %s, the record has been read: sent %v, %v", what, sent, err)
		}
	}
	last := com.Last
	com.acked.Worker = "somebody else" // as if that had been acknowledged
	old()
	com.Reassure(t.Context())
	if sent, err := commit(); sent || !errors.Is(err, ErrFenced) {
		t.Errorf("another message has the number of ours: sent %v, %v", sent, err)
	}
	if _, seq, err := ReadRecord(t.Context(), out, c.Job, 0); err != nil || seq != last {
		t.Errorf("message %d was published, %v", seq, err)
	}
}
