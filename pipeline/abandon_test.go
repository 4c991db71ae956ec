package pipeline_test

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// While the server's subject mapping is unchanged, a change can be abandoned: every
// worker continues, including workers of programs without generations. Later the change
// cannot be abandoned.
func TestResizeAbandoned(t *testing.T) {
	t.Parallel()
	streams := pipelinetest.Recordings(8, 80)
	packets, sent := pipelinetest.Mixed(streams, 4)
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Window, Length: 10, Hop: 2})
	want := direct(t, m, streams, sent)
	b := newRig(t)
	c := quickConfig("abandon", 3)
	b.answerPackets(m, c, packets[:40], 40)
	stopAt := func(what string) {
		t.Helper()
		s := b.newChanger(m, c)
		ended := errors.New("ended by the test")
		s.before = func(is string) error {
			if is == what {
				return ended
			}
			return nil
		}
		if _, err := s.resizeJob(t.Context(), 5); !errors.Is(err, ended) {
			t.Fatalf("ended with %v", err)
		}
	}
	for _, what := range []string{"record 1", "note switch"} {
		stopAt(what)
		if raw, _ := b.lastRecord(c.Job, 0); raw.Header.Get(wire.HeaderGen) != "1" {
			t.Errorf("the record has no generation: %v", raw.Header)
		}
		if _, err := b.newChanger(m, c).resizeJob(t.Context(), 7); !errors.Is(err, pipeline.ErrChanging) {
			t.Errorf("to another number: %v, want %v", err, pipeline.ErrChanging)
		}
		if err := b.newChanger(m, c).abandonChange(t.Context()); err != nil {
			t.Fatal(err)
		}
		for p := range 3 {
			raw, _ := b.lastRecord(c.Job, p)
			if text := raw.Header.Get(wire.HeaderGen); text != "" {
				t.Errorf("partition %d still has generation %s", p, text)
			}
		}
	}
	r := b.startStage(m, c)
	b.publishPackets(packets[40:60])
	b.settleMessages(r, 60)
	r.stopStage(t)
	stopAt("note drain")
	if err := b.newChanger(m, c).abandonChange(t.Context()); !errors.Is(err, operate.ErrPastCut) {
		t.Errorf("after the mapping changed: %v, want %v", err, operate.ErrPastCut)
	}
	b.resizeJob(m, c, 5)
	c.Partitions = 5
	r = b.startStage(m, c)
	b.publishPackets(packets[60:])
	got := b.awaitPredictions(c.Job, count(want))
	r.stopStage(t)
	same(t, got, want)
}

// A change abandoned before any of its writes ends, and leaves no record that a worker
// would refuse.
func TestResizeAbandonedMeanwhile(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	for _, what := range []string{"record 0", "record 1", "record 2", "note switch"} {
		b := newRig(t)
		c := quickConfig("meanwhile", 3)
		b.startStage(m, c).stopStage(t)
		b.onStream(wire.OutputStream(c.Job), func(ctx context.Context, s jetstream.Stream) error { // one partition has no record yet
			return s.Purge(ctx, jetstream.WithPurgeSubject(wire.OutputSubject(c.Job, 2)))
		})
		s := b.newChanger(m, c)
		s.before = func(is string) error {
			if is == what {
				return b.newChanger(m, c).abandonChange(t.Context())
			}
			return nil
		}
		if _, err := s.resizeJob(t.Context(), 5); !errors.Is(err, operate.ErrMeanwhile) {
			t.Errorf("before %q: the change ended with %v, want %v", what, err, operate.ErrMeanwhile)
		}
		for p := range 3 {
			if raw, _ := b.lastRecord(c.Job, p); raw.Header.Get(wire.HeaderGen) != "" {
				t.Errorf("before %q: partition %d is of generation %s, and no change is under way", what, p, raw.Header.Get(wire.HeaderGen))
			}
		}
		r := b.startStage(m, c)
		b.publishPackets([]pipelinetest.Packet{pipelinetest.One("m1", 1, 3, .5, true)})
		b.awaitPredictions(c.Job, 1)
		r.stopStage(t)
	}
}

// An interrupted abandonment is completed by a second call.
func TestResizeAbandonInterrupted(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := quickConfig("halfway", 3)
	b.startStage(m, c).stopStage(t)
	ended := errors.New("ended by the test")
	until := func(what string) *changer {
		s := b.newChanger(m, c)
		s.before = func(is string) error {
			if is == what {
				return ended
			}
			return nil
		}
		return s
	}
	if _, err := until("note switch").resizeJob(t.Context(), 5); !errors.Is(err, ended) {
		t.Fatal(err)
	}
	for _, what := range []string{"note abandon", "record 0", "record 2", "note "} {
		if err := until(what).abandonChange(t.Context()); !errors.Is(err, ended) {
			t.Errorf("before %q: %v", what, err)
		}
		if what == "note abandon" {
			continue
		}
		if _, err := b.newChanger(m, c).resizeJob(t.Context(), 5); !errors.Is(err, pipeline.ErrChanging) {
			t.Errorf("a change goes on that is abandoned: %v", err)
		}
		mentions(t, b.launchFails(m, c), "from 3 to 5 is being abandoned")
	}
	if err := b.newChanger(m, c).abandonChange(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.startStage(m, c).stopStage(t)
	b.resizeJob(m, c, 5)
}
