package pipeline_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Repeated messages count once.
func TestDuplicates(t *testing.T) {
	streams := pipelinetest.Recordings(6, 50)
	packets, sent := pipelinetest.Mixed(streams, 2)
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	r := b.startStage(m, pipeline.Config{Job: "dup", Partitions: 3})
	var doubled []pipelinetest.Packet
	for i, p := range packets {
		doubled = append(doubled, p)
		if i%3 == 0 {
			doubled = append(doubled, p)
		}
		if i > 20 && i%7 == 0 {
			doubled = append(doubled, packets[i-20]) // an old message
		}
	}
	b.publishPackets(doubled)
	s := b.settleMessages(r, len(doubled))
	r.stopStage(t)
	same(t, b.readPredictions("dup"), direct(t, m, streams, sent))
	if want := uint64(len(doubled) - len(packets)); s.Duplicates != want || s.Gaps != 0 {
		t.Errorf("%d duplicates and %d gaps counted, want %d and 0", s.Duplicates, s.Gaps, want)
	}
}

// A missing message flags its sequence, the next sequence has no flag; bad messages
// become dead letters with their reason and affect no other stream.
func TestGapsAndDeadLetters(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	r := b.startStage(m, pipeline.Config{Job: "bad", Partitions: 2, Reorder: -1})
	nan := pipelinetest.One("nan", 2, 2, 1, false)
	nan.Batch.X = []float32{1, 2, pipelinetest.NaN, 4}
	huge := pipelinetest.One("huge", 2, 1, 1e20, false)
	crc := pipelinetest.One("crc", 2, 2, 2, false)
	crc.Header[wire.HeaderCRC] = "00000001"
	wrong := pipelinetest.Packet{Key: "wrong", Seq: 2, Raw: []byte("this is not Arrow")}
	number := pipelinetest.One("number", 0, 1, 1, false)
	number.Header[wire.HeaderSeq] = "twelve"
	zero := pipelinetest.One("number", 0, 1, 1, false)
	zero.Header[wire.HeaderSeq] = "0"
	okCRC := pipelinetest.One("crc", 4, 1, 1, true)
	okCRC.Header[wire.HeaderCRC] = fmt.Sprintf("%08x", wire.CRC(okCRC.Payload(t)))
	var packets []pipelinetest.Packet
	add := func(p ...pipelinetest.Packet) { packets = append(packets, p...) }
	for _, k := range []string{"gap", "nan", "huge", "crc", "wrong", "number", "clean"} {
		add(pipelinetest.One(k, 1, 3, 0.5, false))
	}
	add(pipelinetest.One("gap", 3, 2, 0.5, true), pipelinetest.One("gap", 4, 1, 0.5, true))
	add(nan, pipelinetest.One("nan", 3, 2, 0.5, true), pipelinetest.One("nan", 4, 1, 1, true))
	add(huge, pipelinetest.One("huge", 3, 2, 0.5, true))
	add(crc, pipelinetest.One("crc", 3, 2, 0.5, true), okCRC)
	add(wrong, pipelinetest.One("wrong", 3, 2, 0.5, true))
	add(number, zero, pipelinetest.One("number", 2, 2, 0.5, true))
	add(pipelinetest.One("late", 5, 1, 0.5, true)) // first seen at 5: its beginning is missing
	add(pipelinetest.One("clean", 2, 2, 0.5, true))
	b.publishPackets(packets)
	s := b.settleMessages(r, len(packets))
	r.stopStage(t)
	got := b.readPredictions("bad")
	for k, want := range map[string]string{
		"gap": "3.1:gap 4.0:", "nan": "3.1:poison-skipped 4.0:", "huge": "3.1:poison-skipped", "crc": "3.1:poison-skipped 4.0:",
		"wrong": "3.1:poison-skipped", "number": "2.1:poison-skipped", "late": "5.0:gap", "clean": "2.1:",
	} {
		if g := flags(got[k]); g != want {
			t.Errorf("stream %s: predictions %q, want %q", k, g, want)
		}
	}
	// A skipped message leaves no trace in the state: five equal samples.
	if !sameBits(got["nan"][0].Scores, got["clean"][0].Scores) {
		t.Error("a skipped message changed the state")
	}
	dead := b.deadLetters("bad")
	if len(dead) != 6 || s.DeadLetters != 6 || s.Gaps != 2 {
		t.Fatalf("%d dead letters, counted %d, gaps %d; want 6, 6, 2", len(dead), s.DeadLetters, s.Gaps)
	}
	for _, want := range []string{"NaN", "1e+20", "CRC-32C", "codec: ", `"twelve"`, `"0"`} {
		if !slices.ContainsFunc(dead, func(d consumer.DeadLetter) bool { return strings.Contains(d.Reason, want) }) {
			t.Errorf("no dead letter says %q", want)
		}
	}
	i := slices.IndexFunc(dead, func(d consumer.DeadLetter) bool { return string(d.Data) == "this is not Arrow" })
	if i < 0 || dead[i].Header.Get(wire.HeaderSeq) != "2" || !strings.HasSuffix(dead[i].Subject, ".wrong") || dead[i].InSeq == 0 {
		t.Errorf("the original bytes, headers and place are not in a dead letter: %+v", dead)
	}
}

// A skipped message stays skipped: every later prediction of the sequence is flagged,
// also after a restart, and the next sequence is complete.
func TestIntegrityLasts(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked, Early: 2})
	b := newRig(t)
	c := pipeline.Config{Job: "lasts", Partitions: 1}
	r := b.startStage(m, c)
	bad := pipelinetest.Packet{Key: "a", Seq: 2, Raw: []byte("this is not Arrow")}
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", 1, 2, 1, false), bad, pipelinetest.One("a", 3, 2, 1, false)})
	b.settleMessages(r, 3)
	r.crashStage(t)
	b.expireMembers("lasts")
	r = b.startStage(m, c)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", 4, 2, 1, false), pipelinetest.One("a", 5, 1, 1, true), pipelinetest.One("a", 6, 2, 1, false), pipelinetest.One("a", 7, 1, 1, true)})
	got := b.awaitPredictions("lasts", 6)["a"]
	r.stopStage(t)
	var said []string
	for _, p := range got {
		said = append(said, fmt.Sprintf("%d:%s", p.Seq, p.Flags.Integrity()))
	}
	const want = "1:early 3:poison-skipped 4:poison-skipped 5:poison-skipped 6:early 7:complete"
	if text := strings.Join(said, " "); text != want {
		t.Errorf("integrity %q, want %q", text, want)
	}
}

// A replay after a restart does not rewrite dead letters.
func TestDeadLettersOnce(t *testing.T) {
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	for run := range 2 {
		r := b.startStage(m, pipeline.Config{Job: "dlq", Partitions: 1, StopTimeout: 50 * time.Millisecond})
		if run == 0 {
			b.publishPackets([]pipelinetest.Packet{{Key: "a", Seq: 1, Raw: []byte("x")}, pipelinetest.One("a", 2, 1, 1, false)})
		}
		b.settleMessages(r, 2)
		if run == 0 {
			r.crashStage(t) // so that there is input to replay
			b.expireMembers("dlq")
			continue
		}
		if s := r.counters.Stats(); s.Replayed == 0 {
			t.Error("nothing was replayed after a crash")
		}
		r.stopStage(t)
	}
	if dead := b.deadLetters("dlq"); len(dead) != 1 {
		t.Fatalf("%d dead letters, want 1", len(dead))
	}
}
