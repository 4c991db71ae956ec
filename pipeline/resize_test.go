package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// changer changes a job as a whole.
type changer struct {
	job    *pipeline.Job
	before func(what string) error // optional: called before each write
}

func (b *rig) newChanger(m *reservoir.Model, c pipeline.Config) *changer {
	job := &pipeline.Job{Config: c, Model: m, ModelName: "test-model", NewEngine: pipelinetest.Generic, Dial: b.dialServer, Log: b.log}
	job.SetKeep(-1, nil)
	return &changer{job: job}
}

func (c *changer) resizeJob(ctx context.Context, to int) (operate.Resized, error) {
	return operate.Resize(ctx, c.job, operate.ResizeOptions{To: to, Before: c.before})
}

func (c *changer) replaceJob(ctx context.Context, with *changer) (operate.Replaced, error) {
	return operate.Replace(ctx, c.job, operate.ReplaceOptions{With: with.job, Before: c.before})
}

func (c *changer) abandonChange(ctx context.Context) error {
	return operate.Abandon(ctx, c.job, c.before)
}

func (c *changer) verifyPartition(ctx context.Context, js jetstream.JetStream, part int) (replay.Verification, error) {
	return replay.Verify(ctx, js, c.job, part)
}

func (b *rig) resizeJob(m *reservoir.Model, c pipeline.Config, to int) {
	b.t.Helper()
	r, err := b.newChanger(m, c).resizeJob(b.t.Context(), to)
	if err != nil {
		b.t.Fatal(err)
	}
	if r.Partitions != to || r.Step != "" {
		b.t.Fatalf("the job is %+v, want %d partitions", r, to)
	}
}

// publishMeanwhile publishes packets until none are left, in parallel to f.
func (b *rig) publishMeanwhile(packets []pipelinetest.Packet, f func()) {
	b.t.Helper()
	var beside sync.WaitGroup
	beside.Go(func() {
		for _, p := range packets {
			b.publishPackets([]pipelinetest.Packet{p})
			time.Sleep(200 * time.Microsecond)
		}
	})
	defer beside.Wait()
	f()
}

// Up and down, to numbers without common factors, between stops, with producers and
// with held messages: all predictions equal an engine fed directly, bit for bit.
func TestResize(t *testing.T) {
	for name, policy := range map[string]reservoir.Policy{
		"marked": {Kind: reservoir.Marked, Early: 3},
		"window": {Kind: reservoir.Window, Length: 10, Hop: 2},

		"marked front end": {Kind: reservoir.Marked, Early: 3},
		"window front end": {Kind: reservoir.Window, Length: 10, Hop: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			streams := pipelinetest.Recordings(20, 60)
			packets, sent := pipelinetest.Mixed(streams, 8)
			packets = pipelinetest.Disorder(packets, rand.New(rand.NewPCG(1, 2)))
			m := pipelinetest.Timed(pipelinetest.Model(t, 3, policy))
			if strings.HasSuffix(name, "front end") {
				m = pipelinetest.Fronted(m)
			}
			want := direct(t, m, streams, sent)
			b := newRig(t)
			c := quickConfig("grow", 6)
			c.MaxSlots = 4 // most states are stored apart
			at := 0
			next := func(n int) []pipelinetest.Packet {
				from := at
				at = min(len(packets), at+n)
				return packets[from:at]
			}
			some := len(packets) / 8
			for i, to := range []int{16, 5, 1, 12} {
				r := b.startStage(m, c)
				b.publishPackets(next(some))
				r.waitUntil(t, "some messages", func(s pipeline.Stats) bool { return s.Messages > 5 })
				if i%2 == 0 {
					r.stopStage(t)
				} else {
					r.crashStage(t)
				}
				b.publishPackets(next(some / 2)) // unanswered input
				b.publishMeanwhile(next(some/2), func() { b.resizeJob(m, c, to) })
				b.nothingOf(c.Job, to, 16)
				c.Partitions = to
			}
			r := b.startStage(m, c)
			b.publishPackets(next(len(packets)))
			got := b.awaitPredictions(c.Job, count(want))
			r.stopStage(t)
			same(t, clean(got, 1<<1), clean(want, 1<<1))
			for p := range c.Partitions {
				if _, err := b.newChanger(m, c).verifyPartition(t.Context(), b.js, p); err != nil {
					t.Error(err)
				}
			}
			if dead := b.deadLetters(c.Job); len(dead) > 0 {
				t.Errorf("%d dead letters, the first: %+v", len(dead), dead[0])
			}
		})
	}
}

// nothingOf requires that no states of removed partitions are stored.
func (b *rig) nothingOf(job string, from, to int) {
	b.t.Helper()
	snaps, err := store.FindSnapshots(b.t.Context(), b.js, job)
	if err != nil {
		b.t.Fatal(err)
	}
	for p := from; p < to; p++ {
		if all, err := snaps.Entries(b.t.Context(), p); err != nil || len(all) > 0 {
			b.t.Errorf("of %d partitions, partition %d has the snapshots %v: %v", from, p, all, err)
		}
		b.onStream(wire.RowStream(job), func(ctx context.Context, s jetstream.Stream) error {
			info, err := s.Info(ctx, jetstream.WithSubjectFilter(wire.RowSubjects(job, p)))
			if err == nil && len(info.State.Subjects) > 0 {
				b.t.Errorf("of %d partitions, partition %d has rows on %v", from, p, info.State.Subjects)
			}
			return err
		})
	}
}

// Fewer partitions have more streams each: if there are more than a partition may
// remember, the change waits for more room, because it can no longer be reverted.
func TestResizeNeedsRoom(t *testing.T) {
	t.Parallel()
	streams := pipelinetest.Recordings(12, 30)
	packets, sent := pipelinetest.Mixed(streams, 4)
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	want := direct(t, m, streams, sent)
	b, c := newRig(t), quickConfig("room", 4)
	c.MaxStreams = 11
	r := b.startStage(m, c)
	b.publishPackets(packets[:len(packets)/2])
	r.waitUntil(t, "all of it", func(s pipeline.Stats) bool { return s.Messages >= uint64(len(packets)/2) })
	r.stopStage(t)
	if _, err := b.newChanger(m, c).resizeJob(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "run the command again") || strings.Contains(err.Error(), "more partitions") {
		t.Errorf("12 streams in a partition that may remember 11: %v", err)
	}
	if err := b.newChanger(m, c).abandonChange(t.Context()); !errors.Is(err, operate.ErrPastCut) {
		t.Errorf("abandoned behind the cut: %v", err)
	}
	c.MaxStreams = 12
	b.resizeJob(m, c, 1)
	c.Partitions = 1
	r = b.startStage(m, c)
	b.publishPackets(packets[len(packets)/2:])
	got := b.awaitPredictions(c.Job, count(want))
	r.stopStage(t)
	same(t, clean(got, 1<<1), clean(want, 1<<1))
}

// Interrupted before and after each of its writes, a change continues with the next
// call, and nothing is lost or duplicated.
func TestResizeInterrupted(t *testing.T) {
	t.Parallel()
	streams := pipelinetest.Recordings(12, 60)
	packets, sent := pipelinetest.Mixed(streams, 4)
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Window, Length: 10, Hop: 2})
	want := direct(t, m, streams, sent)
	b := newRig(t)
	c := quickConfig("ended", 4)
	b.answerPackets(m, c, packets[:len(packets)/3], len(packets)/3)
	b.publishPackets(packets[len(packets)/3 : len(packets)/2])
	seen := map[string]bool{}
	ended := errors.New("ended by the test")
	s := b.newChanger(m, c)
	s.before = func(what string) error {
		if seen[what] {
			return nil
		}
		seen[what] = true
		return ended
	}
	rest := packets[len(packets)/2 : len(packets)*2/3]
	for attempt := 0; ; attempt++ {
		_, err := s.resizeJob(t.Context(), 6)
		if err == nil {
			break
		}
		if !errors.Is(err, ended) {
			t.Fatal(err)
		}
		if len(rest) > 0 {
			b.publishPackets(rest[:1])
			rest = rest[1:]
		}
		if attempt == 3 { // a worker does not start in between
			mentions(t, b.launchFails(m, c), "from 4 to 6")
		}
	}
	b.publishPackets(rest)
	for _, what := range []string{"note claim", "record 0", "note switch", "mapping", "note drain", "note store", "note publish", "record 5", "note "} {
		if !seen[what] {
			t.Errorf("no attempt ended before %q: only before %v", what, seen)
		}
	}
	mentions(t, b.launchFails(m, c), "6")
	c.Partitions = 6
	r := b.startStage(m, c)
	b.publishPackets(packets[len(packets)*2/3:])
	got := b.awaitPredictions(c.Job, count(want))
	r.stopStage(t)
	same(t, got, want)
}

// launchFails runs a worker that must not start.
func (b *rig) launchFails(m *reservoir.Model, c pipeline.Config) error {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	err := (&pipeline.Worker{Job: *b.newChanger(m, c).job}).Run(ctx)
	if err == nil {
		b.t.Fatal("a worker started")
	}
	return err
}

// A worker missing from the list, which continues during the change or later, commits
// nothing more and ends with a message.
func TestResizeFencesLateWorkers(t *testing.T) {
	t.Parallel()
	streams := pipelinetest.Recordings(12, 60)
	packets, sent := pipelinetest.Mixed(streams, 4)
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Window, Length: 10, Hop: 2})
	want := direct(t, m, streams, sent)
	b := newRig(t)
	c := quickConfig("late", 4)
	late := b.startStage(m, c)
	b.publishPackets(packets[:100])
	late.waitUntil(t, "some messages", func(s pipeline.Stats) bool { return s.Messages > 50 })
	if _, err := b.newChanger(m, c).resizeJob(t.Context(), 6); !errors.Is(err, operate.ErrWorkers) {
		t.Fatalf("with a worker at work: %v, want %v", err, operate.ErrWorkers)
	}
	changed := make(chan error, 1)
	go func() {
		err := operate.ErrWorkers
		for errors.Is(err, operate.ErrWorkers) { // it may have been listed between two checks
			_, err = b.newChanger(m, c).resizeJob(t.Context(), 6)
		}
		changed <- err
	}()
	var err error
	for waiting := true; waiting; {
		b.expireMembers(c.Job) // the worker works, and is not listed
		select {
		case err = <-changed:
			waiting = false
		case <-time.After(2 * time.Millisecond):
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	mentions(t, late.waitForEnd(t), "number of partitions", "restart")
	c.Partitions = 6
	r := b.startStage(m, c)
	b.publishPackets(packets[100:])
	got := b.awaitPredictions(c.Job, count(want))
	r.stopStage(t)
	same(t, got, want)
}

// A new or empty job, and invalid numbers.
func TestResizeOfLittle(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := quickConfig("little", 3)
	for _, to := range []int{0, -1, 4097} {
		if _, err := b.newChanger(m, c).resizeJob(t.Context(), to); err == nil {
			t.Errorf("%d partitions were taken", to)
		}
	}
	if _, err := b.newChanger(m, c).resizeJob(t.Context(), 5); err == nil || !strings.Contains(err.Error(), "there is no job") {
		t.Errorf("of a job that does not exist: %v", err)
	}
	b.startStage(m, c).stopStage(t)
	if err := b.js.DeleteObjectStore(t.Context(), "LITTLE-SNAP"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.newChanger(m, c).resizeJob(t.Context(), 5); !errors.Is(err, operate.ErrNotBegun) {
		t.Errorf("of a job whose first worker ended before it had created all: %v", err)
	}
	b.startStage(m, c).stopStage(t)
	b.resizeJob(m, c, 5)
	b.resizeJob(m, c, 5)
	c.Partitions = 5
	b.startStage(m, c).stopStage(t)
	b.onStream(wire.InputStream(c.Job), func(ctx context.Context, s jetstream.Stream) error { return s.Purge(ctx) })
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("m1", 1, 3, .5, true)})
	b.onStream(wire.InputStream(c.Job), func(ctx context.Context, s jetstream.Stream) error { return s.Purge(ctx) })
	b.resizeJob(m, c, 2) // all input is gone
	c.Partitions = 2
	r := b.startStage(m, c)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("m2", 1, 3, .5, true)})
	if got := b.awaitPredictions(c.Job, 1); len(got) != 1 {
		t.Errorf("predictions of %v", got)
	}
	r.stopStage(t)
	for p := range 2 {
		if v, err := b.newChanger(m, c).verifyPartition(t.Context(), b.js, p); err != nil || v.Recorded != v.Digest && v.Replayed > 0 {
			t.Error(fmt.Sprintf("%+v", v), err)
		}
	}
}
