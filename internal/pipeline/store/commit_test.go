package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// ofModel is the identity in the records of these tests.
var ofModel = wire.Identity{Network: strings.Repeat("0", wire.HashDigits)}

// An old answer, or an answer on an earlier connection, is not trusted: nothing is sent
// before the record was re-read and found unchanged.
func TestOldAnswersAreNotReliedOn(t *testing.T) {
	t.Parallel()
	_, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	c := layoutOf("old")
	if err := EnsureStreams(t.Context(), js, c, pipelinetest.Log(t)); err != nil {
		t.Fatal(err)
	}
	out, err := js.Stream(t.Context(), wire.OutputStream(c.Job))
	if err != nil {
		t.Fatal(err)
	}
	com := &Committer{JS: js, Stream: out, Job: c.Job, Worker: "w", Model: ofModel, Log: pipelinetest.Log(t), Retries: func() {}}
	if err := com.ClaimPartition(t.Context(), nil, func(wire.Record) bool { return false }); err != nil {
		t.Fatal(err)
	}
	commit := func() (sent bool, err error) {
		next := com.Record
		next.Kind, next.InSeq = wire.KindCommit, next.InSeq+1
		com.BeginPublish(nil, next, nil)
		sent = com.future != nil
		return sent, com.AwaitPublish(t.Context())
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
	com.acked.Worker = "somebody else" // as if this record had been acknowledged
	old()
	com.Reassure(t.Context())
	if sent, err := commit(); sent || !errors.Is(err, ErrFenced) {
		t.Errorf("another message has the number of ours: sent %v, %v", sent, err)
	}
	if _, seq, err := ReadRecord(t.Context(), out, c.Job, 0); err != nil || seq != last {
		t.Errorf("message %d was published, %v", seq, err)
	}
}

// lateStream answers the first requests for a record late.
type lateStream struct {
	jetstream.Stream
	late int
}

func (s *lateStream) GetLastMsgForSubject(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	m, err := s.Stream.GetLastMsgForSubject(ctx, subject)
	if s.late > 0 {
		s.late--
		time.Sleep(surely)
	}
	return m, err
}

// A claim does not follow a late answer, and says why it waits.
func TestClaimAfterLateAnswers(t *testing.T) {
	t.Parallel()
	_, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	c := layoutOf("late")
	if err := EnsureStreams(t.Context(), js, c, pipelinetest.Log(t)); err != nil {
		t.Fatal(err)
	}
	out, err := js.Stream(t.Context(), wire.OutputStream(c.Job))
	if err != nil {
		t.Fatal(err)
	}
	late, waits := &lateStream{out, 2}, 0
	com := &Committer{JS: js, Stream: late, Job: c.Job, Worker: "w", Model: ofModel, Log: pipelinetest.Log(t), Retries: func() {}, Waits: func(err error) error {
		if waits++; !errors.Is(err, errLateAnswer) {
			t.Errorf("it waits for %v", err)
		}
		return nil
	}}
	if err := com.ClaimPartition(t.Context(), nil, func(wire.Record) bool { return false }); err != nil || waits != 2 || late.late != 0 || com.Record.Epoch != 1 {
		t.Errorf("%v, %d waits, epoch %d", err, waits, com.Record.Epoch)
	}
}

// Headers outside the record, such as trace headers, are ignored: an owner that reads
// the message finds the committed record, for any writer.
func TestHeadersBesidesARecord(t *testing.T) {
	r := wire.Record{Kind: wire.KindCommit, Epoch: 3, Worker: "w", Created: "x", Identity: ofModel, Position: wire.Position{InSeq: 7, Outs: 2}}
	com := &Committer{Job: "j", Record: r}
	plain := com.newMessage(r, 4, nil).Header
	with := com.newMessage(r, 4, nil).Header
	with["traceparent"], with["tracestate"] = []string{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, []string{"a=1"}
	a, errA := wire.ParseRecord(wire.Header(plain), "j.out.0", 5)
	b, errB := wire.ParseRecord(wire.Header(with), "j.out.0", 5)
	if errA != nil || errB != nil || a != b || a != r {
		t.Errorf("%+v, %v and %+v, %v, want %+v", a, errA, b, errB, r)
	}
}
