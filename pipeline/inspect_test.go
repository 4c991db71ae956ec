package pipeline_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// A job seen from outside: its owners, its states, their verification; and its states
// as the beginning of another job.
func TestJobFromOutside(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := quickConfig("look", 3)
	r := b.startStage(m, c)
	streams := pipelinetest.Recordings(9, 60)
	packets, sent := pipelinetest.Mixed(streams, 40)
	half := len(packets) / 2
	b.publishPackets(packets[:half])
	b.settleMessages(r, half)
	j, err := admin.Open(t.Context(), b.js, "look")
	if err != nil || j.NumPartitions() != 3 {
		t.Fatalf("job: %v", err)
	}
	verified := 0
	check := &pipeline.Job{Config: c, Model: m, NewEngine: pipelinetest.Generic}
	for p := range 3 {
		s, err := j.Status(t.Context(), p)
		if err != nil || s.Owner == "" || s.Epoch != 1 {
			t.Errorf("while it runs: %+v, %v", s, err)
		}
		v, err := replay.Verify(t.Context(), b.js, check, p)
		if err != nil || v.Digest != v.Recorded {
			t.Errorf("verify while it runs: %+v, %v", v, err)
		}
		verified += int(v.Replayed)
	}
	if verified == 0 {
		t.Error("verify replayed nothing: the test has lost its subject")
	}
	r.stopStage(t)
	streamsSeen := 0
	for p := range 3 {
		s, err := j.Status(t.Context(), p)
		if err != nil || s.Owner != "" || s.Lag != 0 || s.SnapshotSeq != s.InSeq || s.SnapshotBytes == 0 {
			t.Errorf("after its release: %+v, %v", s, err)
		}
		raw, err := operate.Snapshot(t.Context(), b.js, j.Name(), p)
		if err != nil {
			t.Fatal(err)
		}
		st, err := admin.ReadState(raw)
		if err != nil || st.Partition != p {
			t.Fatalf("state: %v", err)
		}
		streamsSeen += len(st.Streams)
		if part, _, err := operate.CheckImport(pipeline.Config{Partitions: 3}, raw); part != p || err != nil {
			t.Errorf("partition %d, %v, want %d", part, err, p)
		}
		mentions(t, operate.Import(t.Context(), b.js, pipeline.Config{Job: "heir", InputSubject: "other.*", Partitions: 4096}, raw), "with 4096 partitions its key", "set stage.partitions")
		if err := operate.Import(t.Context(), b.js, pipeline.Config{Job: "heir", InputSubject: "other.*", Partitions: 3}, raw); err != nil {
			t.Fatal(err)
		}
		mentions(t, operate.Import(t.Context(), b.js, pipeline.Config{Job: "heir", InputSubject: "other.*", Partitions: 3}, raw), "already started")
	}
	if streamsSeen != 9 {
		t.Errorf("%d streams in the snapshots, want 9", streamsSeen)
	}
	// The heir goes on in the middle of the sequences, on another subject.
	heir := quickConfig("heir", 3)
	heir.InputSubject = "other.*"
	r = b.startStage(m, heir)
	for _, p := range packets[half:] {
		b.publishOn("other.", p)
	}
	got := b.readPredictions("look")
	exp := direct(t, m, streams, sent)
	for name, ps := range b.awaitPredictions("heir", count(exp)-count(got)) {
		got[name] = append(got[name], ps...)
	}
	r.stopStage(t)
	same(t, got, exp)

	broken := *check
	broken.Model = pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Count, Length: 9}) // not the stage's model
	_, err = replay.Verify(t.Context(), b.js, &broken, 0)
	mentions(t, err, "another network than this worker's")
	_, err = admin.Open(t.Context(), b.js, "nosuch")
	mentions(t, err, "nosuch")
	_, err = j.Status(t.Context(), 3)
	mentions(t, err, "0 to 2")
}

// A message unreadable for a gateway is not read by the stage either when it is resent,
// although its bytes have the stage's format.
func TestDeadLetterReplayUnreadable(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	r := b.startStage(m, quickConfig("unread", 1))
	sample := pipelinetest.Rows("a", 1, true, 1, 2)
	if _, err := b.js.PublishMsg(t.Context(), &nats.Msg{Subject: "sensors.a", Data: sample.Payload(t), Header: nats.Header{wire.HeaderUnreadable: {"no number"}}}); err != nil {
		t.Fatal(err)
	}
	b.settleMessages(r, 1)
	j, err := admin.Open(t.Context(), b.js, "unread")
	if err != nil {
		t.Fatal(err)
	}
	d, err := j.DeadLetter(t.Context(), 1)
	if err == nil {
		_, err = j.Replay(t.Context(), d)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.settleMessages(r, 2)
	r.stopStage(t)
	if dead, s := b.deadLetters("unread"), b.readPredictions("unread"); len(dead) != 2 || len(s) != 0 {
		t.Errorf("%d dead letters, predictions %v, want 2 and none", len(dead), s)
	}
}

// A producer can neither hide its dead letters, nor mark others as resent, nor keep
// resent messages out of the input.
func TestDeadLettersOfHostileProducer(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	r := b.startStage(m, quickConfig("guess", 1))
	send := func(data []byte, h nats.Header) {
		t.Helper()
		if _, err := b.js.PublishMsg(t.Context(), &nats.Msg{Subject: "sensors.a", Data: data, Header: h}); err != nil {
			t.Fatal(err)
		}
	}
	send([]byte("first"), nil)
	forged := nats.Header{}
	for _, name := range []string{wire.HeaderTruncated, wire.HeaderDropped, wire.HeaderError, wire.HeaderReason, wire.HeaderInSeq, wire.HeaderInSubject} {
		forged.Set(name, "7")
	}
	forged.Set(wire.HeaderKind, wire.KindSentAgain)
	forged.Set(wire.HeaderDead, "1")
	send([]byte("second"), forged)
	b.settleMessages(r, 2)
	j, err := admin.Open(t.Context(), b.js, "guess")
	if err != nil {
		t.Fatal(err)
	}
	var all []admin.Letter
	if err := j.DeadLetters(t.Context(), admin.LetterFilter{Unsent: true}, func(d admin.Letter) error { all = append(all, d); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[1].InSeq != 2 || all[1].Subject != "guess.in.0.a" {
		t.Errorf("listed as %+v, want two that were not sent", all)
	}
	d, err := j.DeadLetter(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if d.Header.Get(wire.HeaderTruncated) != "" || d.Header.Get("Eusn-In-"+wire.HeaderKind) != wire.KindSentAgain {
		t.Errorf("it has the headers %v", d.Header)
	}
	send([]byte("third"), nats.Header{jetstream.MsgIDHeader: {"guess.dlq.2"}, wire.HeaderDead: {"2"}})
	as, err := j.Replay(t.Context(), d)
	if err != nil || as != 4 {
		t.Errorf("sent again as input message %d, want 4: %v", as, err)
	}
	b.settleMessages(r, 4)
	r.stopStage(t)
	if dead := b.deadLetters("guess"); len(dead) != 4 || string(dead[3].Data) != "second" {
		t.Errorf("%d dead letters, want 4: %+v", len(dead), dead)
	}
}

// A dead letter usable with another configuration takes its place when resent.
func TestDeadLetterReplay(t *testing.T) {
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := quickConfig("retry", 1)
	r := b.startStage(m, c)
	bad := pipelinetest.Rows("a", 1, true, 1, pipelinetest.NaN)
	b.publishPackets([]pipelinetest.Packet{bad})
	b.settleMessages(r, 1)
	r.stopStage(t)
	dead := b.deadLetters("retry")
	if len(dead) != 1 {
		t.Fatalf("%d dead letters, want 1", len(dead))
	}
	j, err := admin.Open(t.Context(), b.js, "retry")
	if err != nil {
		t.Fatal(err)
	}
	d, err := j.DeadLetter(t.Context(), dead[0].Seq)
	if err != nil || !bytes.Equal(d.Data, bad.Payload(t)) {
		t.Fatalf("dead letter: %v", err)
	}
	list := func(f admin.LetterFilter) (all []admin.Letter) {
		t.Helper()
		if err := j.DeadLetters(t.Context(), f, func(d admin.Letter) error { all = append(all, d); return nil }); err != nil {
			t.Fatal(err)
		}
		return all
	}
	if all := list(admin.LetterFilter{Unsent: true}); len(all) != 1 || all[0].SentAgain != nil || all[0].Why != "value" || all[0].Key != "a" || all[0].Bytes != len(d.Data) {
		t.Errorf("listed as %+v", all)
	}
	for range 2 { // the second is a repeat
		if as, err := j.Replay(t.Context(), d); err != nil || as != 2 {
			t.Fatal(as, err)
		}
	}
	all := list(admin.LetterFilter{Reason: "value", Key: "a", Until: time.Now().Add(time.Minute)})
	if len(all) != 1 || all[0].SentAgain == nil || all[0].SentAs != 2 || all[0].Seq != d.Seq {
		t.Errorf("sent again, it is listed as %+v", all)
	}
	for _, f := range []admin.LetterFilter{{Unsent: true}, {Reason: "schema"}, {Reason: "no such words"}, {Key: "b"}, {Since: time.Now().Add(time.Minute)}, {Until: d.Stored}} {
		if all := list(f); len(all) != 0 {
			t.Errorf("%+v takes %+v", f, all)
		}
	}
	if _, err := j.DeadLetter(t.Context(), d.Seq+1); err == nil || !strings.Contains(err.Error(), "dead letter 1 was sent again") {
		t.Errorf("the mark is read as a dead letter: %v", err)
	}
	if n := len(b.deadLetters("retry")); n != 1 {
		t.Errorf("%d dead letters, want 1 beside its mark", n)
	}
	c.NonFinite = codec.Zero
	r = b.startStage(m, c)
	b.settleMessages(r, 2)
	r.stopStage(t)
	if got := flags(b.readPredictions("retry")["a"]); got != "0.0:held|poison-skipped" {
		t.Errorf("predictions %q", got)
	}
	// A reader that waited for a deleted last message would wait indefinitely.
	ack, err := b.js.Publish(t.Context(), "retry.dlq.0", nil)
	if err != nil {
		t.Fatal(err)
	}
	dlq, err := b.js.Stream(t.Context(), wire.DeadLetterStream("retry"))
	if err != nil {
		t.Fatal(err)
	}
	if err := dlq.DeleteMsg(t.Context(), ack.Sequence); err != nil {
		t.Fatal(err)
	}
	if all := list(admin.LetterFilter{}); len(all) != 1 {
		t.Errorf("%d are listed, want 1", len(all))
	}
}

// Held messages of an imported state belong to no input of the new job: their dead
// letters must not be treated as repeats of others.
func TestImportedHeldMessageIsItsOwnDeadLetter(t *testing.T) {
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := quickConfig("old", 1)
	r := b.startStage(m, c)
	bad := func(key string, seq uint64, data string) pipelinetest.Packet {
		return pipelinetest.Packet{Key: key, Seq: seq, Raw: []byte(data)}
	}
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", 1, 2, 1, false), bad("a", 3, "bad 3"), bad("a", 4, "bad 4")}) // inputs 2 and 3 wait
	b.settleMessages(r, 3)
	r.stopStage(t)
	raw, err := operate.Snapshot(t.Context(), b.js, "old", 0)
	if err != nil {
		t.Fatal(err)
	}
	heir := quickConfig("heir", 1)
	heir.InputSubject = "other.*"
	if err := operate.Import(t.Context(), b.js, heir, raw); err != nil {
		t.Fatal(err)
	}
	r = b.startStage(m, heir)
	b.publishOn("other.", bad("b", 0, "bad b1"), bad("b", 0, "bad b2"), bad("b", 0, "bad b3"), pipelinetest.One("a", 2, 2, 1, false), pipelinetest.One("a", 5, 2, 1, true))
	b.awaitPredictions("heir", 1)
	r.stopStage(t)
	var got []string
	for _, d := range b.deadLetters("heir") {
		got = append(got, fmt.Sprintf("%d %s", d.InSeq, d.Data))
	}
	if want := "[1 bad b1 2 bad b2 3 bad b3 0 bad 3 0 bad 4]"; fmt.Sprint(got) != want {
		t.Errorf("dead letters %v, want %s", got, want)
	}
}

// A partition without open sequences has a small snapshot, for any length of its rows.
// The partition can be inspected, exported and imported like any other partition.
func TestStatesOfIdlePartitions(t *testing.T) {
	m := pipelinetest.Bank(t, 300, 7, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := quickConfig("calm", 2)
	r := b.startStage(m, c)
	open, ended := keysIn(0, 2, 1)[0], keysIn(1, 2, 1)[0]
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One(open, 1, 2, 1, false), pipelinetest.One(ended, 1, 2, 1, true)})
	b.settleMessages(r, 2)
	r.stopStage(t)
	raw, err := operate.Snapshot(t.Context(), b.js, "calm", 1)
	if err != nil {
		t.Fatal(err)
	}
	if words := engine.LayoutOf(m.Network.Spec).Words; len(raw) >= words {
		t.Fatalf("a snapshot of %d bytes, rows of %d words: the test has lost its subject", len(raw), words)
	}
	s, err := admin.ReadState(raw)
	if err != nil || len(s.Streams) != 1 || s.Streams[0].ID != ended || s.Streams[0].Rows[0] != nil {
		t.Errorf("state %+v, %v, want one stream between two sequences", s, err)
	}
	if err := operate.Import(t.Context(), b.js, pipeline.Config{Job: "heir", InputSubject: "other.*", Partitions: 2}, raw); err != nil {
		t.Error(err)
	}
	raw[64+3] = 0x7f // words
	if _, err := admin.ReadState(raw); !errors.Is(err, state.ErrState) {
		t.Errorf("a row of 2^31 words: %v", err)
	}
}
