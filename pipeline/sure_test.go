package pipeline_test

import (
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// The server's check before a publish identifies the last message only by its number.
// An output that goes back and has grown to the same number again, by another worker,
// must not accept a commit based on the lost message.
func TestOutputGoesBackToTheSameNumber(t *testing.T) {
	for _, what := range []string{"commit", "release"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			cfg := quickConfig("back", 1)
			m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
			p := newPast(t)
			b := p.newRig()
			r := b.startStage(m, cfg)
			b.publishPackets(endedSequences("a", 1, 1))
			b.settleMessages(r, 1)
			r.stopStage(t)
			putBack := p.keepStreams(wire.OutputStream(cfg.Job))

			b = p.newRig()
			r = b.startStage(m, cfg)
			b.publishPackets(endedSequences("a", 1, 2))
			r.waitUntil(t, "a commit", func(pipeline.Stats) bool { _, rec := b.lastRecord(cfg.Job, 0); return rec.InSeq == 2 })
			raw, ours := b.lastRecord(cfg.Job, 0)
			p.srv.Close()
			putBack()
			var theirs wire.Record
			p.whileAlone(func(b *rig) { // another worker answers message 2 and later input
				answered := wire.Position{InSeq: 2, Outs: 2}
				if what == "commit" {
					b.publishPackets(endedSequences("a", 1, 3))
					answered = wire.Position{InSeq: 3, Outs: 3}
				}
				out, err := b.js.Stream(t.Context(), wire.OutputStream(cfg.Job))
				if err != nil {
					t.Fatal(err)
				}
				empty, err := wire.NoPredictions(codec.PredictionMeta{Labels: []string{"a", "b"}})
				if err != nil {
					t.Fatal(err)
				}
				other := &store.Committer{JS: b.js, Stream: out, Job: cfg.Job, Worker: "other", Log: b.log, Retries: func() {}, Model: ours.Identity}
				if err := other.ClaimPartition(t.Context(), empty, func(wire.Record) bool { return false }); err != nil {
					t.Fatal(err)
				}
				for other.Last < raw.Sequence {
					next := ours
					next.Kind, next.Worker, next.Epoch = wire.KindCommit, other.Worker, other.Record.Epoch
					next.Position = answered
					q := other.NoteAsked()
					ack, err := other.Publish(t.Context(), next, other.Last, empty)
					if err != nil {
						t.Fatal(err)
					}
					other.Accept(next, ack.Sequence, q)
				}
				theirs = other.Record
			})
			p.startServer(p.port)
			b = p.newRig()
			if what == "release" {
				r.waitUntil(t, "connection", func(pipeline.Stats) bool { return r.conns[0].IsConnected() })
				r.stopStage(t)
				if now, rec := b.lastRecord(cfg.Job, 0); now.Sequence != raw.Sequence || rec != theirs {
					t.Errorf("the worker that was stopped published over another's record: message %d, %+v", now.Sequence, rec)
				}
				return
			}
			r.waitUntil(t, "fencing", func(s pipeline.Stats) bool { return s.Fenced == 1 })
			b.publishPackets(endedSequences("a", 1, 4))
			r.waitUntil(t, "the next commit", func(pipeline.Stats) bool { _, rec := b.lastRecord(cfg.Job, 0); return rec.InSeq == 4 })
			r.stopStage(t)
			if _, rec := b.lastRecord(cfg.Job, 0); rec.Outs != 4 || rec.Epoch != theirs.Epoch+1 {
				t.Errorf("%d predictions in epoch %d, want 4 in epoch %d", rec.Outs, rec.Epoch, theirs.Epoch+1)
			}
		})
	}
}
