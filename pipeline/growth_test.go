package pipeline_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// The newest dead letters are kept, up to the limit; the stage reports and counts
// dropped dead letters.
func TestDeadLettersAreBounded(t *testing.T) {
	t.Parallel()
	b, book := newLoggedRig(t)
	c := pipeline.Config{Job: "many", Partitions: 2, Lease: 300 * time.Millisecond, DeadLetterKeep: 3}
	r := b.startStage(pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked}), c)
	for i := range 10 {
		b.publishPackets([]pipelinetest.Packet{{Key: fmt.Sprint("s", i), Raw: []byte("x")}})
	}
	b.settleMessages(r, 10)
	waitFor(t, "the log to say it", func() bool { return book.Lines("the oldest dead letters are dropped") >= 1 })
	j, err := admin.Open(t.Context(), b.js, c.Job)
	if err != nil {
		t.Fatal(err)
	}
	held, err := j.Stored(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.stopStage(t)
	if n := r.counters.Stats().DeadLetters; n != 10 {
		t.Errorf("%d dead letters counted, want 10", n)
	}
	if all := b.deadLetters(c.Job); len(all) != 3 {
		t.Errorf("%d dead letters kept, want 3", len(all))
	}
	if g := held.Average(); g.Dropped != 7 || len(g.Streams[2].Bounds) != 1 || g.Streams[2].Bounds[0] != "max_msgs 3" {
		t.Errorf("%+v", g)
	}
}

// A job created without the limit keeps all dead letters, and reports so at the start.
func TestDeadLettersOfOldJobs(t *testing.T) {
	t.Parallel()
	b := newRig(t)
	c := pipeline.Config{Job: "old", Partitions: 1}.WithDefaults()
	if got := b.streamConfig("x"); got != nil {
		t.Fatal("a NATS stream nobody made")
	}
	if err := store.EnsureStreams(t.Context(), b.js, c.Layout(), b.log); err != nil {
		t.Fatal(err)
	}
	name := wire.DeadLetterStream(c.Job)
	if got := b.streamConfig(name).MaxMsgs; got != pipeline.Defaults().DeadLetterKeep {
		t.Errorf("a new job keeps %d dead letters, want %d", got, pipeline.Defaults().DeadLetterKeep)
	}
	b.editStream(name, func(c *jetstream.StreamConfig) { c.MaxMsgs = -1 })
	book := &pipelinetest.LogBook{}
	if err := store.EnsureStreams(t.Context(), b.js, c.Layout(), book.Logger()); err != nil || book.Lines("has other limits than the configuration") != 1 || b.streamConfig(name).MaxMsgs != -1 {
		t.Errorf("%v; said %d times; keeps %d", err, book.Lines("has other limits than the configuration"), b.streamConfig(name).MaxMsgs)
	}
	c.DeadLetterKeep = -1 // all, like the old job
	book = &pipelinetest.LogBook{}
	if err := store.EnsureStreams(t.Context(), b.js, c.Layout(), book.Logger()); err != nil || book.Lines("has other limits than the configuration") != 0 {
		t.Errorf("%v; said %d times", err, book.Lines("has other limits than the configuration"))
	}
}
