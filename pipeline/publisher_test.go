package pipeline_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/producer"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// stopping is a Source that calls stop before item n.
type stopping struct {
	producer.Source
	left int
	stop context.CancelFunc
}

func (s *stopping) Next() (producer.Item, error) {
	if s.left == 0 {
		s.stop()
	}
	s.left--
	return s.Source.Next()
}

// numberedSeries makes n series of 30 to 50 samples on k streams.
func numberedSeries(n, k int, timed bool) (list []producer.Item, perStream map[string][]pipelinetest.Recording) {
	perStream = map[string][]pipelinetest.Recording{}
	for i, r := range pipelinetest.Recordings(n, 50) {
		rows := 30 + i%21
		name := pipelinetest.Recordings(k, 1)[i%k].Name
		it := producer.Item{Stream: name, X: r.X[:2*rows], End: true}
		if timed {
			it.Times = r.Times[:rows]
		}
		list = append(list, it)
		ends := make([]bool, rows)
		ends[rows-1] = true
		perStream[name] = append(perStream[name], pipelinetest.Recording{Name: name, X: it.X, Times: r.Times[:rows], Ends: ends})
	}
	return list, perStream
}

// Published messages arrive complete, numbered without gaps, each stream in order; and
// the stage's scores equal an engine's.
func TestPublisherToStage(t *testing.T) {
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	r := b.startStage(m, pipeline.Config{Job: "pub", Partitions: 4})
	list, streams := numberedSeries(60, 7, false)
	var told int
	p := producer.Publisher{Channels: m.Channels, RowsPerMessage: 8, Playing: 5, Progress: func(producer.Published) { told++ }}
	got, err := p.Publish(t.Context(), b.nc, producer.FromSlice(list))
	if err != nil {
		t.Fatal(err)
	}
	rows, messages := 0, 0
	for _, it := range list {
		rows += len(it.X) / 2
		messages += (len(it.X)/2 + 7) / 8
	}
	if got.Streams != 7 || got.Rows != uint64(rows) || got.Messages != uint64(messages) || got.Skipped != 0 {
		t.Fatalf("published %+v, want 7 streams, %d rows, %d messages", got, rows, messages)
	}
	s := b.settleMessages(r, messages)
	if s.Gaps != 0 || s.Duplicates != 0 || s.Rows != uint64(rows) {
		t.Fatalf("stage saw %+v", s)
	}
	out := b.readPredictions("pub")
	for name, list := range streams {
		if len(out[name]) != len(list) {
			t.Fatalf("stream %s: %d predictions, want %d", name, len(out[name]), len(list))
		}
		for i, rec := range list {
			exp := direct(t, m, []pipelinetest.Recording{rec}, map[string][]pipelinetest.Packet{name: {{Batch: codec.Batch{Rows: len(rec.Times)}}}})[name][0]
			if g := out[name][i]; !sameBits(g.Scores, exp.Scores) || g.Flags != 0 {
				t.Fatalf("stream %s, series %d: %+v, want scores %v", name, i, g, exp.Scores)
			}
		}
	}
	r.stopStage(t)
	if told == 0 && got.Elapsed > 200*time.Millisecond {
		t.Error("no progress was told")
	}
}

// A publisher stopped and restarted with Resume leaves the same messages as an
// uninterrupted publisher; another source is refused.
func TestPublisherResume(t *testing.T) {
	b := newRig(t)
	r := b.startStage(pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked}), pipeline.Config{Job: "res", Partitions: 4})
	list, _ := numberedSeries(40, 5, true)
	p := producer.Publisher{Channels: []string{"x", "y"}, RowsPerMessage: 4, Playing: 3, Resume: true, Job: "res"}
	ctx, cancel := context.WithCancel(t.Context())
	first, err := p.Publish(ctx, b.nc, &stopping{producer.FromSlice(list), 17, cancel})
	if !errors.Is(err, context.Canceled) || first.Messages == 0 {
		t.Fatalf("stopped publisher returned %+v, %v", first, err)
	}
	second, err := p.Publish(t.Context(), b.nc, producer.FromSlice(list))
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, it := range list {
		total += (len(it.Times) + 3) / 4
	}
	if second.Skipped != first.Messages || second.Skipped+second.Messages != uint64(total) {
		t.Fatalf("first %+v, second %+v, want %d messages in all", first, second, total)
	}
	s := b.settleMessages(r, total)
	if s.Messages != uint64(total) || s.Duplicates+s.Gaps+s.DeadLetters != 0 {
		t.Fatalf("stage saw %+v, want %d clean messages", s, total)
	}
	third, err := p.Publish(t.Context(), b.nc, producer.FromSlice(list))
	if err != nil || third.Messages != 0 || third.Skipped != uint64(total) {
		t.Fatalf("a third time: %+v, %v; want nothing to do", third, err)
	}
	p.RowsPerMessage = 5
	if _, err := p.Publish(t.Context(), b.nc, producer.FromSlice(list)); err == nil || !strings.Contains(err.Error(), "rows per message") {
		t.Fatalf("resuming with other messages: %v, want an error that says why", err)
	}
	r.stopStage(t)
}

// Without Resume a second run restarts its numbers and is not treated as repeats.
func TestPublisherNewIncarnation(t *testing.T) {
	b := newRig(t)
	r := b.startStage(pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked}), pipeline.Config{Job: "inc", Partitions: 2})
	list, _ := numberedSeries(6, 3, false)
	p := producer.Publisher{Channels: []string{"x", "y"}}
	for range 2 {
		if _, err := p.Publish(t.Context(), b.nc, producer.FromSlice(list)); err != nil {
			t.Fatal(err)
		}
	}
	s := b.settleMessages(r, 12)
	if s.Messages != 12 || s.Duplicates != 0 || s.Incarnations != 3 {
		t.Fatalf("%+v, want 12 messages, no duplicates, 3 new incarnations", s)
	}
	r.stopStage(t)
}
