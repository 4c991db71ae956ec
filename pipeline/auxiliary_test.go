package pipeline_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// removeStream deletes a NATS stream as an operator would.
func (b *rig) removeStream(name string) {
	b.t.Helper()
	if err := b.js.DeleteStream(context.Background(), name); err != nil {
		b.t.Fatal(err)
	}
}

// streamConfig returns the configuration of a NATS stream, nil if missing.
func (b *rig) streamConfig(name string) *jetstream.StreamConfig {
	s, err := b.js.Stream(context.Background(), name)
	if err != nil {
		return nil
	}
	return &s.CachedInfo().Config
}

// hasSnapshot reports whether the snapshot in a partition's record exists.
func (b *rig) hasSnapshot(job string, part int) bool {
	b.t.Helper()
	_, r := b.lastRecord(job, part)
	store, err := b.js.ObjectStore(context.Background(), wire.SnapshotBucket(job))
	if err != nil || r.Snap == "" {
		return false
	}
	_, err = store.GetBytes(context.Background(), r.Snap)
	return err == nil
}

// After the snapshots are deleted under a stage, the stage stores every partition's
// state, including silent partitions, and the next worker begins from these snapshots.
func TestSnapshotsDeletedUnderStage(t *testing.T) {
	for name, c := range map[string]struct {
		lease time.Duration
		end   func(*running, testing.TB)
	}{
		"killed once they are there":  {300 * time.Millisecond, (*running).crashStage},
		"stopped before it has heard": {time.Minute, (*running).stopStage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked, Early: 2})
			b := newRig(t)
			conf := quickConfig("bare", 2)
			conf.Lease, conf.SnapshotMessages, conf.StopTimeout = c.lease, 1, patience
			busy, silent := keysIn(0, 2, 1)[0], keysIn(1, 2, 1)[0]
			before := []pipelinetest.Packet{pipelinetest.One(busy, 1, 2, 1, false), pipelinetest.One(silent, 1, 2, 2, false)}
			after := []pipelinetest.Packet{pipelinetest.One(busy, 2, 2, 3, true), pipelinetest.One(silent, 2, 2, 4, true)}
			r := b.startStage(m, conf)
			b.editStream(wire.SnapshotStream(conf.Job), func(c *jetstream.StreamConfig) { c.Description = "ours" })
			if c.lease < time.Second { // the stage has noticed the deletion
				waitFor(t, "a look", func() bool {
					k := r.counters.Server().Auxiliary
					k.Mu.Lock()
					defer k.Mu.Unlock()
					return k.Known[wire.SnapshotStream(conf.Job)].Config.Description == "ours"
				})
			}
			b.publishPackets(before)
			waitFor(t, "snapshots", func() bool { return b.hasSnapshot(conf.Job, 0) && b.hasSnapshot(conf.Job, 1) })
			waitFor(t, "their commits", func() bool { return r.counters.Stats().Snapshots >= 2 })
			b.removeStream(wire.SnapshotStream(conf.Job))
			if c.lease < time.Second {
				waitFor(t, "snapshots once more", func() bool { return b.hasSnapshot(conf.Job, 0) && b.hasSnapshot(conf.Job, 1) })
				if got := b.streamConfig(wire.SnapshotStream(conf.Job)); got.Description != "ours" || got.AllowDirect {
					t.Errorf("created again as %+v", got)
				}
				// The new snapshots are named, and no snapshot or commit repeats.
				waitFor(t, "both named", func() bool {
					named := 0
					for _, tn := range r.counters.Owned() {
						if s := tn.Saving(); !s.Lost && !s.Uploading && tn.Health().Unsaved.IsZero() {
							named++
						}
					}
					return named == 2
				})
				quiet := r.counters.Stats()
				time.Sleep(5 * c.lease)
				if now := r.counters.Stats(); now.Snapshots != quiet.Snapshots || now.Commits > quiet.Commits+3 { // one partition stores its empty range
					t.Errorf("%d snapshots and %d commits of partitions that nobody sends to", now.Snapshots-quiet.Snapshots, now.Commits-quiet.Commits)
				}
			}
			c.end(r, t)
			b.purgeInput(conf.Job) // only the snapshots hold the history
			b.expireMembers(conf.Job)
			r = b.launchStage(m, conf, pipelinetest.Generic)
			b.publishPackets(after)
			got := b.awaitPredictions(conf.Job, 4)
			if s := r.counters.Stats(); s.Stopped != 0 {
				t.Errorf("%d partitions stopped", s.Stopped)
			}
			r.stopStage(t)
			same(t, got, map[string][]codec.Prediction{
				busy: predictAlone(t, m, codec.Reject, before[0], after[0]), silent: predictAlone(t, m, codec.Reject, before[1], after[1]),
			})
		})
	}
}

// purgeInput removes all input.
func (b *rig) purgeInput(job string) {
	b.t.Helper()
	b.onStream(wire.InputStream(job), func(ctx context.Context, s jetstream.Stream) error { return s.Purge(ctx) })
}

// After the list of workers is deleted under two workers, neither takes partitions from
// the other, and a leaving worker is replaced as usual.
func TestMembersDeletedUnderStage(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := quickConfig("list", 8)
	c.StopTimeout = patience
	first := b.startStage(m, c)
	second := b.startStage(m, c)
	share := func(r *running) (mine []int) {
		for _, p := range r.counters.Status().Partitions {
			if p.Share && p.Phase == pipeline.Reading {
				mine = append(mine, p.Partition)
			}
		}
		return mine
	}
	waitFor(t, "halves", func() bool { return len(share(first)) == 4 && len(share(second)) == 4 })
	lease := b.streamConfig(wire.MemberStream(c.Job)).MaxAge
	before := []uint64{first.counters.Stats().Claims, second.counters.Stats().Claims}
	mine := share(first)
	for range 3 {
		b.removeStream(wire.MemberStream(c.Job))
		waitFor(t, "both in a new list", func() bool {
			s, err := b.js.Stream(t.Context(), wire.MemberStream(c.Job))
			return err == nil && s.CachedInfo().State.Msgs == 2
		})
	}
	time.Sleep(2 * c.Lease)
	after := []uint64{first.counters.Stats().Claims, second.counters.Stats().Claims}
	if !slices.Equal(before, after) || !slices.Equal(share(first), mine) {
		t.Errorf("claims %d, before %d; the first has %d, before %d", after, before, share(first), mine)
	}
	if got := b.streamConfig(wire.MemberStream(c.Job)).MaxAge; got != lease {
		t.Errorf("leases of %v, before %v", got, lease)
	}
	second.stopStage(t)
	waitFor(t, "the whole share", func() bool { return len(share(first)) == 8 })
	first.stopStage(t)
}

// After dead letters are deleted under a stage, a partition with a dead letter waits
// until the NATS stream is recreated, and continues automatically.
func TestDeadLettersDeletedUnderStage(t *testing.T) {
	t.Parallel()
	b, book := newLoggedRig(t)
	c := pipeline.Config{Job: "nodlq", Partitions: 1, Lease: 300 * time.Millisecond}
	r := b.startStage(pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked}), c)
	b.removeStream(wire.DeadLetterStream(c.Job))
	b.publishPackets([]pipelinetest.Packet{{Key: "s", Raw: []byte("x")}, pipelinetest.One("s", 1, 2, 1, true)})
	b.settleMessages(r, 2)
	r.stopStage(t)
	if n := len(b.deadLetters(c.Job)); n != 1 {
		t.Errorf("%d dead letters, want 1", n)
	}
	if n := book.Lines("NATS stream of the job was deleted and created again: the dead letters in it are lost"); n != 1 {
		t.Errorf("said %d times, want once", n)
	}
}

// A NATS stream that cannot be recreated is reported, and recreated when possible.
// Pending dead letters block their partition meanwhile, because none may be lost.
func TestBelongingNotMade(t *testing.T) {
	t.Parallel()
	b, book := newLoggedRig(t)
	c := pipeline.Config{Job: "barred", Partitions: 1, Lease: 300 * time.Millisecond}
	r := b.startStage(pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked}), c)
	b.removeStream(wire.DeadLetterStream(c.Job))
	other := jetstream.StreamConfig{Name: "OTHER", Subjects: []string{c.Job + ".dlq.7"}} // overlaps
	for {                                                                                // the stage may be faster
		_, err := b.js.CreateStream(t.Context(), other)
		if err == nil {
			break
		}
		b.removeStream(wire.DeadLetterStream(c.Job))
	}
	b.publishPackets([]pipelinetest.Packet{{Key: "s", Raw: []byte("x")}, pipelinetest.One("s", 1, 2, 1, true)})
	waitFor(t, "a health that says what is waited for", func() bool {
		s := r.counters.Status()
		return strings.Contains(strings.Join(s.Unready(), ""), "partition 0: publish failed, retrying: dead letter on barred.dlq.0: nats: no response from stream")
	})
	waitFor(t, "its cause", func() bool {
		return book.Lines("was deleted and is not created again: a partition that has a dead letter waits") > 0
	})
	n := book.Lines("is not created again")
	time.Sleep(3 * c.Lease)
	if now := book.Lines("is not created again"); now != n {
		t.Errorf("said %d times within %v", now-n, 3*c.Lease)
	}
	waitFor(t, "a line in the log", func() bool { return book.Lines("dead letter on barred.dlq.0") > 0 })
	b.removeStream("OTHER")
	b.settleMessages(r, 2)
	s := r.counters.Status()
	if why := s.Unready(); why != nil {
		t.Errorf("not ready afterwards: %q", why)
	}
	r.stopStage(t)
	if n := len(b.deadLetters(c.Job)); n != 1 {
		t.Errorf("%d dead letters, want 1", n)
	}
}

// A store of state rows is recreated only if it held no rows: rows missing from an
// existing store stop their partitions.
func TestRowsDeletedUnderStage(t *testing.T) {
	t.Parallel()
	b := newRig(t)
	c := quickConfig("away", 1)
	c.Shards, c.MaxSlots, c.StopTimeout = 1, 2, patience
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked, Early: 2})
	r := b.startStage(m, c)
	old := b.streamConfig(wire.RowStream(c.Job)).FirstSeq
	b.removeStream(wire.RowStream(c.Job))
	waitFor(t, "an empty store created again", func() bool { now := b.streamConfig(wire.RowStream(c.Job)); return now != nil && now.FirstSeq > old })
	keys := keysIn(0, 1, 3)
	for i, k := range keys {
		b.publishPackets([]pipelinetest.Packet{pipelinetest.One(k, 1, 2, float32(i), false)})
	}
	b.awaitPredictions(c.Job, 3)
	r.waitUntil(t, "rows stored apart", func(s pipeline.Stats) bool { return s.Spilled > 0 && s.Deferred == 0 })
	b.removeStream(wire.RowStream(c.Job))
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One(keys[0], 2, 2, 9, false)})
	waitFor(t, "a deferred partition", func() bool { phase, _ := r.phaseOf(0); return phase == pipeline.Deferred })
	time.Sleep(3 * c.Lease)
	if b.streamConfig(wire.RowStream(c.Job)) != nil {
		t.Error("a store that held rows was created again")
	}
	if phase, why := r.phaseOf(0); phase == pipeline.Stopped {
		t.Errorf("the partition stopped: %s", why)
	}
	r.cancel()
	_ = r.waitForEnd(t) // its state could not be released
}
