package pipeline_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/producer"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/nats-io/nats.go/jetstream"
)

// Answers larger than the server takes are split, also within one input
// message; wherever the stage was killed between the parts, a restart
// publishes exactly the rest.
func TestSplitCommits(t *testing.T) {
	dir := t.TempDir()
	c := pipeline.Config{Job: "split", Partitions: 1, MaxMessage: 32 << 10}
	srv := pipelinetest.Server(t, natsserver.Options{Dir: dir, MaxPayload: 48 << 10})
	b := rigOf(t, srv)
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Count, Length: 1})
	streams := pipelinetest.Recordings(2, 2500)
	var packets []pipelinetest.Packet
	sent := map[string][]pipelinetest.Packet{}
	for _, r := range streams {
		p := pipelinetest.Packet{Key: r.Name, Seq: 1, Batch: codec.Batch{Rows: 2500, X: r.X}}
		sent[r.Name] = []pipelinetest.Packet{p}
		packets = append(packets, p)
	}
	exp := direct(t, m, streams, sent)
	for _, ps := range exp {
		for i := range ps {
			ps[i].Time = codec.NoTime // sent without times, to fit the message
		}
	}
	r := b.startStage(m, c)
	b.publishPackets(packets)
	s := b.settleMessages(r, 2)
	r.stopStage(t)
	if s.Commits < 6 || s.Predictions != 5000 {
		t.Fatalf("%d commits of %d predictions, want 5000 in at least 6", s.Commits, s.Predictions)
	}
	same(t, b.readPredictions("split"), exp)

	out, err := b.js.Stream(t.Context(), wire.OutputStream("split"))
	if err != nil {
		t.Fatal(err)
	}
	last, err := out.GetLastMsgForSubject(t.Context(), wire.OutputSubject("split", 0))
	if err != nil {
		t.Fatal(err)
	}
	ahead := 0
	if err := out.DeleteMsg(t.Context(), last.Sequence); err != nil { // the release
		t.Fatal(err)
	}
	for seq := last.Sequence - 1; seq > 2; seq-- { // as if killed before message seq; 1 is the job's entry, 2 is the claim
		if err := out.DeleteMsg(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
		before, err := out.GetMsg(t.Context(), seq-1)
		if err != nil {
			t.Fatal(err)
		}
		if before.Header.Get(wire.HeaderAhead) != "0" {
			ahead++
		}
		r := b.startStage(m, c)
		b.settleMessages(r, 2)
		r.waitUntil(t, "the rest", func(s pipeline.Stats) bool { return s.Predictions > 0 })
		r.stopStage(t)
		same(t, b.readPredictions("split"), exp)
		info, err := out.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for del := info.State.LastSeq; del >= seq; del-- { // back to the place
			if err := out.DeleteMsg(t.Context(), del); err != nil && !strings.Contains(err.Error(), "not found") {
				t.Fatal(err)
			}
		}
	}
	if ahead < 3 {
		t.Errorf("only %d positions within a message were tried", ahead)
	}
}

// A dead letter with too large headers loses bytes, but not the position.
func TestDeadLetterTooLarge(t *testing.T) {
	srv := pipelinetest.Server(t, natsserver.Options{MaxPayload: 48 << 10})
	b := rigOf(t, srv)
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	c := pipeline.Config{Job: "large", Partitions: 1, MaxMessage: 32 << 10}
	r := b.startStage(m, c)
	r.stopStage(t)
	in, err := b.js.Stream(t.Context(), wire.InputStream("large"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := in.CachedInfo().Config
	cfg.MaxMsgSize = -1 // an operator has removed the limit
	if _, err := b.js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	r = b.startStage(m, c)
	raw := slices.Repeat([]byte{'x'}, 48<<10-152)
	b.publishPackets([]pipelinetest.Packet{{Key: "a", Seq: 1, Raw: raw}, pipelinetest.One("a", 2, 1, 1, true)})
	b.settleMessages(r, 2)
	r.stopStage(t)
	dead := b.deadLetters("large")
	if len(dead) != 1 || dead[0].Header.Get(wire.HeaderTruncated) != "49000" || len(dead[0].Data) < 48000 {
		t.Fatalf("%d dead letters, want one of 49000 bytes cut short", len(dead))
	}
	if got := flags(b.readPredictions("large")["a"]); got != "2.0:poison-skipped" {
		t.Errorf("predictions %q", got)
	}
}

// A worker with a late restore, after the next owner has replaced its snapshot, was
// overtaken; it has lost nothing.
func TestOvertakenWhileRestoring(t *testing.T) {
	b := newRig(t)
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	r := b.startStage(m, quickConfig("late", 1))
	list, _ := numberedSeries(4, 5, true)
	if _, err := (producer.Publisher{Channels: m.Channels}).Publish(t.Context(), b.nc, producer.FromSlice(list)); err != nil {
		t.Fatal(err)
	}
	b.settleMessages(r, 4)
	r.stopStage(t)
	out, err := b.js.Stream(t.Context(), wire.OutputStream("late"))
	if err != nil {
		t.Fatal(err)
	}
	_, released := b.lastRecord("late", 0)
	open := func(worker string) *store.Committer {
		c := &store.Committer{JS: b.js, Stream: out, Job: "late", Worker: worker, Log: b.log, Model: released.Identity}
		if err := c.ClaimPartition(t.Context(), nil, func(wire.Record) bool { return false }); err != nil {
			t.Fatal(err)
		}
		return c
	}
	missing := errors.New("snapshot is lost")
	slow := open("slow")
	if err := slow.CheckOvertaken(t.Context(), missing); err != missing {
		t.Errorf("still the owner: %v, want the failure itself", err)
	}
	open("quick")
	if err := slow.CheckOvertaken(t.Context(), missing); !errors.Is(err, store.ErrFenced) {
		t.Errorf("overtaken: %v, want errFenced", err)
	}
	// Its first requests may fail: the connection broke during the suspension.
	slow.Stream = &deaf{Stream: out, times: 2}
	if err := slow.CheckOvertaken(t.Context(), missing); !errors.Is(err, store.ErrFenced) {
		t.Errorf("overtaken, with questions that fail: %v, want errFenced", err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	slow.Stream = &deaf{Stream: out, times: 1}
	if err := slow.CheckOvertaken(stopped, missing); err != missing {
		t.Errorf("stopped meanwhile: %v, want the failure itself", err)
	}
}

// deaf is a NATS stream that fails a number of reads of the last message.
type deaf struct {
	jetstream.Stream
	times int
}

func (d *deaf) GetLastMsgForSubject(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	if d.times--; d.times >= 0 {
		return nil, context.Canceled
	}
	return d.Stream.GetLastMsgForSubject(ctx, subject)
}
