package pipeline_test

import (
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// A worker was killed after publishing some predictions of a message, and the same
// batch had a dead letter before that message. The next worker processes the two in
// separate batches and is killed between them: the record must still contain the
// published predictions of the second message, or the successor republishes them.
func TestDeadLetterBeforeASplitCommit(t *testing.T) {
	t.Parallel()
	c := pipeline.Config{Job: "mixed", Partitions: 1, MaxMessage: 32 << 10, Latency: time.Second}
	b := rigOf(t, pipelinetest.Server(t, natsserver.Options{MaxPayload: 48 << 10}))
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Count, Length: 1})
	b.startStage(m, c).stopStage(t) // the NATS streams exist afterwards
	if _, err := b.js.Publish(t.Context(), "sensors.bad", []byte("no samples")); err != nil {
		t.Fatal(err)
	}
	streams := pipelinetest.Recordings(1, 2500)
	large := pipelinetest.Packet{Key: streams[0].Name, Seq: 1, Batch: codec.Batch{Rows: 2500, X: streams[0].X}}
	b.publishPackets([]pipelinetest.Packet{large})
	want := direct(t, m, streams, map[string][]pipelinetest.Packet{large.Key: {large}})
	for i := range want[large.Key] {
		want[large.Key][i].Time = codec.NoTime // sent without times, to fit the message
	}
	r := b.startStage(m, c)
	b.settleMessages(r, 2)
	r.stopStage(t)
	out, err := b.js.Stream(t.Context(), wire.OutputStream(c.Job))
	if err != nil {
		t.Fatal(err)
	}
	last := func() (wire.Record, uint64) {
		msg, rec := b.lastRecord(c.Job, 0)
		return rec, msg.Sequence
	}
	back := func(to uint64) { // as if killed before message to
		for rec, seq := last(); seq >= to; rec, seq = last() {
			if err := out.DeleteMsg(t.Context(), seq); err != nil {
				t.Fatalf("%+v: %v", rec.Position, err)
			}
		}
	}
	halfWay, begun := last()
	for halfWay.Ahead == 0 || halfWay.InSeq > 0 {
		if back(begun); begun < 3 {
			t.Fatal("no commit in the middle of the second message, behind a dead letter: the test has lost its subject")
		}
		halfWay, begun = last()
	}

	c.RowBudget = 1 // a message in each batch
	r = b.startStage(m, c)
	b.settleMessages(r, 2)
	r.stopStage(t)
	same(t, b.readPredictions(c.Job), want)
	for rec, seq := last(); rec.Outs > halfWay.Outs; rec, seq = last() { // as if killed before more is out
		back(seq)
	}
	if rec, _ := last(); rec.Position != halfWay.Position {
		t.Errorf("position %+v after the dead letter, want %+v: nothing more was predicted", rec.Position, halfWay.Position)
	}
	r = b.startStage(m, c)
	r.waitUntil(t, "the rest", func(s pipeline.Stats) bool { return s.Predictions > 0 && s.Lag == 0 })
	r.stopStage(t)
	same(t, b.readPredictions(c.Job), want)
}
