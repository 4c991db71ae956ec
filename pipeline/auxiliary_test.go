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

// remove deletes a NATS stream as an operator would.
func (b *rig) remove(name string) {
	b.t.Helper()
	if err := b.js.DeleteStream(context.Background(), name); err != nil {
		b.t.Fatal(err)
	}
}

// config returns the configuration of a NATS stream, nil if missing.
func (b *rig) config(name string) *jetstream.StreamConfig {
	s, err := b.js.Stream(context.Background(), name)
	if err != nil {
		return nil
	}
	return &s.CachedInfo().Config
}

// stored reports whether the snapshot in a partition's record exists.
func (b *rig) stored(job string, part int) bool {
	b.t.Helper()
	_, r := b.last(job, part)
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
		"killed once they are there":  {300 * time.Millisecond, (*running).crash},
		"stopped before it has heard": {time.Minute, (*running).stop},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked, Early: 2})
			b := newRig(t)
			conf := quick("bare", 2)
			conf.Lease, conf.SnapshotMessages, conf.StopTimeout = c.lease, 1, patience
			busy, silent := keysIn(0, 2, 1)[0], keysIn(1, 2, 1)[0]
			before := []pipelinetest.Packet{pipelinetest.One(busy, 1, 2, 1, false), pipelinetest.One(silent, 1, 2, 2, false)}
			after := []pipelinetest.Packet{pipelinetest.One(busy, 2, 2, 3, true), pipelinetest.One(silent, 2, 2, 4, true)}
			r := b.start(m, conf)
			b.edit(wire.SnapshotStream(conf.Job), func(c *jetstream.StreamConfig) { c.Description = "ours" })
			if c.lease < time.Second { // the stage has noticed the deletion
				waitFor(t, "a look", func() bool {
					k := r.counters.Server().Auxiliary
					k.Mu.Lock()
					defer k.Mu.Unlock()
					return k.Known[wire.SnapshotStream(conf.Job)].Config.Description == "ours"
				})
			}
			b.publish(before)
			waitFor(t, "snapshots", func() bool { return b.stored(conf.Job, 0) && b.stored(conf.Job, 1) })
			waitFor(t, "their commits", func() bool { return r.counters.Stats().Snapshots >= 2 })
			b.remove(wire.SnapshotStream(conf.Job))
			if c.lease < time.Second {
				waitFor(t, "snapshots once more", func() bool { return b.stored(conf.Job, 0) && b.stored(conf.Job, 1) })
				if got := b.config(wire.SnapshotStream(conf.Job)); got.Description != "ours" || got.AllowDirect {
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
			b.expire(conf.Job)
			r = b.launch(m, conf, pipelinetest.Generic)
			b.publish(after)
			got := b.await(conf.Job, 4)
			if s := r.counters.Stats(); s.Stopped != 0 {
				t.Errorf("%d partitions stopped", s.Stopped)
			}
			r.stop(t)
			same(t, got, map[string][]codec.Prediction{
				busy: alone(t, m, codec.Reject, before[0], after[0]), silent: alone(t, m, codec.Reject, before[1], after[1]),
			})
		})
	}
}

// purgeInput removes all input.
func (b *rig) purgeInput(job string) {
	b.t.Helper()
	b.must(wire.InputStream(job), func(ctx context.Context, s jetstream.Stream) error { return s.Purge(ctx) })
}

// After the list of workers is deleted under two workers, neither takes partitions from
// the other, and a leaving worker is replaced as usual.
func TestMembersDeletedUnderStage(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := quick("list", 8)
	c.StopTimeout = patience
	first := b.start(m, c)
	second := b.start(m, c)
	share := func(r *running) (mine []int) {
		for _, p := range r.counters.Status().Partitions {
			if p.Share && p.Phase == pipeline.Reading {
				mine = append(mine, p.Partition)
			}
		}
		return mine
	}
	waitFor(t, "halves", func() bool { return len(share(first)) == 4 && len(share(second)) == 4 })
	lease := b.config(wire.MemberStream(c.Job)).MaxAge
	before := []uint64{first.counters.Stats().Claims, second.counters.Stats().Claims}
	mine := share(first)
	for range 3 {
		b.remove(wire.MemberStream(c.Job))
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
	if got := b.config(wire.MemberStream(c.Job)).MaxAge; got != lease {
		t.Errorf("leases of %v, before %v", got, lease)
	}
	second.stop(t)
	waitFor(t, "the whole share", func() bool { return len(share(first)) == 8 })
	first.stop(t)
}

// After dead letters are deleted under a stage, a partition with a dead letter waits
// until the NATS stream is recreated, and continues automatically.
func TestDeadLettersDeletedUnderStage(t *testing.T) {
	t.Parallel()
	b, book := newLoggedRig(t)
	c := pipeline.Config{Job: "nodlq", Partitions: 1, Lease: 300 * time.Millisecond}
	r := b.start(pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked}), c)
	b.remove(wire.DeadLetterStream(c.Job))
	b.publish([]pipelinetest.Packet{{Key: "s", Raw: []byte("x")}, pipelinetest.One("s", 1, 2, 1, true)})
	b.settle(r, 2)
	r.stop(t)
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
	r := b.start(pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked}), c)
	b.remove(wire.DeadLetterStream(c.Job))
	other := jetstream.StreamConfig{Name: "OTHER", Subjects: []string{c.Job + ".dlq.7"}} // overlaps
	for {                                                                                // the stage may be faster
		_, err := b.js.CreateStream(t.Context(), other)
		if err == nil {
			break
		}
		b.remove(wire.DeadLetterStream(c.Job))
	}
	b.publish([]pipelinetest.Packet{{Key: "s", Raw: []byte("x")}, pipelinetest.One("s", 1, 2, 1, true)})
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
	b.remove("OTHER")
	b.settle(r, 2)
	s := r.counters.Status()
	if why := s.Unready(); why != nil {
		t.Errorf("not ready afterwards: %q", why)
	}
	r.stop(t)
	if n := len(b.deadLetters(c.Job)); n != 1 {
		t.Errorf("%d dead letters, want 1", n)
	}
}

// A store of state rows is recreated only if it held no rows: rows missing from an
// existing store stop their partitions.
func TestRowsDeletedUnderStage(t *testing.T) {
	t.Parallel()
	b := newRig(t)
	c := quick("away", 1)
	c.Shards, c.MaxSlots, c.StopTimeout = 1, 2, patience
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked, Early: 2})
	r := b.start(m, c)
	old := b.config(wire.RowStream(c.Job)).FirstSeq
	b.remove(wire.RowStream(c.Job))
	waitFor(t, "an empty store created again", func() bool { now := b.config(wire.RowStream(c.Job)); return now != nil && now.FirstSeq > old })
	keys := keysIn(0, 1, 3)
	for i, k := range keys {
		b.publish([]pipelinetest.Packet{pipelinetest.One(k, 1, 2, float32(i), false)})
	}
	b.await(c.Job, 3)
	r.until(t, "rows stored apart", func(s pipeline.Stats) bool { return s.Spilled > 0 && s.Deferred == 0 })
	b.remove(wire.RowStream(c.Job))
	b.publish([]pipelinetest.Packet{pipelinetest.One(keys[0], 2, 2, 9, false)})
	waitFor(t, "a deferred partition", func() bool { phase, _ := r.phase(0); return phase == pipeline.Deferred })
	time.Sleep(3 * c.Lease)
	if b.config(wire.RowStream(c.Job)) != nil {
		t.Error("a store that held rows was created again")
	}
	if phase, why := r.phase(0); phase == pipeline.Stopped {
		t.Errorf("the partition stopped: %s", why)
	}
	r.cancel()
	_ = r.wait(t) // its state could not be released
}
