package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// With far fewer state rows than open sequences, with crashes, restarts and
// partitions that move: predictions and final states are those of a stage that
// has room for all, and nothing is left in the store that no state names.
func TestSpillSameBits(t *testing.T) {
	for name, c := range map[string]struct {
		policy reservoir.Policy
		slots  int
	}{
		"marked": {reservoir.Policy{Kind: reservoir.Marked, Early: 4}, 3},
		"one":    {reservoir.Policy{Kind: reservoir.Marked}, 1},
		"window": {reservoir.Policy{Kind: reservoir.Window, Length: 10, Hop: 2}, 4}, // less than one stream's states
		"count":  {reservoir.Policy{Kind: reservoir.Count, Length: 9}, 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			streams := recordings(24, 60)
			packets, sent := mixed(streams, 77)
			m := testModel(t, 3, c.policy)
			exp := direct(t, m, streams, sent)
			b := newRig(t)
			conf := quick("spill", 3)
			shuffled := disorder(packets, rand.New(rand.NewPCG(6, 2)))
			const parts = 4
			spilled, fetched := uint64(0), uint64(0)
			for i := range parts {
				conf.Shards, conf.RowBudget, conf.MaxSlots = 1+i%2, 30*(i+1), c.slots
				if conf.StopTimeout = patience; i%2 == 0 && i < parts-1 {
					conf.StopTimeout = 300 * time.Millisecond // a crash waits so long for answers
				}
				r := b.start(m, conf)
				b.publish(shuffled[i*len(shuffled)/parts : (i+1)*len(shuffled)/parts])
				switch {
				case i == parts-1:
					got := b.await("spill", count(exp))
					same(t, clean(got, codec.FlagReordered), exp)
					r.until(t, "all input", func(s Stats) bool { return s.Lag == 0 })
					r.stop(t)
				case i%2 == 0:
					time.Sleep(time.Duration(i) * 9 * time.Millisecond)
					r.crash(t)
					b.expire("spill")
				default:
					r.stop(t) // the next one begins with rows that are stored apart
				}
				s := r.counters.Stats()
				spilled, fetched = spilled+s.Spilled, fetched+s.Fetched
				if s.Slots > int64(conf.Shards*c.slots) || s.Away != 0 {
					t.Errorf("%d rows in use at the end, %d counted as stored", s.Slots, s.Away)
				}
			}
			if spilled < 20 || fetched < 20 {
				t.Fatalf("%d rows stored, %d read back: the test has lost its subject", spilled, fetched)
			}
			t.Logf("%d rows stored, %d read back", spilled, fetched)
			b.onlyNamedRows("spill", 3)
			sums := b.digests("spill", 3)

			// A damaged row would be found, whether it is asked for or not; and
			// states leave the job whole.
			check := &Stage{Config: conf, Model: m, NewEngine: generic}
			j, err := OpenJob(t.Context(), b.js, "spill")
			if err != nil {
				t.Fatal(err)
			}
			for p := range 3 {
				if v, err := check.Verify(t.Context(), b.js, p); err != nil || v.Digest != sums[p] {
					t.Errorf("verify: %+v, %v", v, err)
				}
				raw, _, err := j.Snapshot(t.Context(), p)
				if err != nil {
					t.Fatal(err)
				}
				if s, err := ReadState(raw); err != nil || len(s.Streams) == 0 {
					t.Errorf("exported state: %v", err)
				}
			}

			b.forgetOutput("spill")
			conf.MaxSlots = 0
			r := b.start(m, conf)
			r.until(t, "all input", func(s Stats) bool { return s.Lag == 0 && int(s.Predictions) == count(exp) })
			if s := r.counters.Stats(); s.Spilled != 0 {
				t.Errorf("%d rows stored with room for all", s.Spilled)
			}
			r.stop(t)
			if roomy := b.digests("spill", 3); !slices.Equal(roomy, sums) {
				t.Errorf("final states %v, with room for all %v", sums, roomy)
			}
		})
	}
}

// onlyNamedRows checks that the store holds exactly the rows that the job's
// snapshots name, once the deletions under way are done.
func (b *rig) onlyNamedRows(job string, partitions int) {
	b.t.Helper()
	named := map[uint64]bool{}
	for p := range partitions {
		for _, ref := range b.named(job, p) {
			named[ref.seq] = true
		}
	}
	s, err := b.js.Stream(b.t.Context(), rowStream(job))
	if err != nil {
		b.t.Fatal(err)
	}
	var n uint64
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		info, err := s.Info(b.t.Context())
		if err != nil {
			b.t.Fatal(err)
		}
		if n = info.State.Msgs; int(n) == len(named) {
			break
		}
	}
	if int(n) != len(named) {
		b.t.Errorf("%d rows in the store, the snapshots name %d", n, len(named))
	}
	for seq := range named {
		if _, err := s.GetMsg(b.t.Context(), seq); err != nil {
			b.t.Errorf("row %d: %v", seq, err)
		}
	}
}

// named is which rows a partition's snapshot says are stored apart.
func (b *rig) named(job string, part int) (refs []rowRef) {
	b.t.Helper()
	_, r := b.last(job, part)
	if r.snap == "" {
		return nil
	}
	store, err := b.js.ObjectStore(b.t.Context(), snapshotBucket(job))
	if err != nil {
		b.t.Fatal(err)
	}
	raw, err := store.GetBytes(b.t.Context(), r.snap)
	if err != nil {
		b.t.Fatal(err)
	}
	sh, _, err := shapeIn(raw)
	if err != nil {
		b.t.Fatal(err)
	}
	p, err := decodeSnapshot(raw, sh, part)
	if err != nil {
		b.t.Fatal(err)
	}
	for e := p.recency.Front(); e != nil; e = e.Next() {
		for _, ref := range e.Value.(*stream).away {
			if ref.seq > 0 {
				refs = append(refs, ref)
			}
		}
	}
	return refs
}

// opened is a job that was stopped with open sequences, most of whose rows
// are stored apart.
func opened(t *testing.T, job string, streams int) (*rig, *reservoir.Model, Config) {
	t.Helper()
	m := testModel(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := quick(job, 1)
	c.MaxSlots = 2
	r := b.start(m, c)
	for i := range streams {
		b.publish([]packet{one(fmt.Sprint("k", i), 1, 2, float32(i)/9, false)})
	}
	b.settle(r, streams)
	r.stop(t)
	if n := len(b.named(job, 0)); n < streams-2 {
		t.Fatalf("%d rows of %d are stored apart: the test has lost its subject", n, streams)
	}
	return b, m, c
}

// What killed workers left in the store is swept; what a snapshot names and
// what is of other partitions stays.
func TestRowsAreSwept(t *testing.T) {
	b, m, c := opened(t, "rows", 8)
	c.Partitions = 1
	for _, subject := range []string{"rows.rows.0.1", "rows.rows.0.0", "rows.rows.7.1", "rows.rows.0.99"} {
		if _, err := b.js.Publish(t.Context(), subject, []byte("left behind")); err != nil {
			t.Fatal(err)
		}
	}
	r := b.start(m, c)
	s, err := b.js.Stream(t.Context(), rowStream("rows"))
	if err != nil {
		t.Fatal(err)
	}
	of := func(subject string) int {
		info, err := s.Info(t.Context(), jetstream.WithSubjectFilter(subject))
		if err != nil {
			t.Fatal(err)
		}
		return int(info.State.Subjects[subject])
	}
	for end := time.Now().Add(patience); of("rows.rows.0.0") > 0 || of("rows.rows.0.1") > len(b.named("rows", 0)); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the orphans are still there")
		}
	}
	if of("rows.rows.7.1") != 1 || of("rows.rows.0.99") != 1 {
		t.Error("rows of another partition or a later owner were deleted")
	}
	for i := range 8 {
		b.publish([]packet{one(fmt.Sprint("k", i), 2, 2, 1, true)})
	}
	b.await("rows", 8)
	r.stop(t)
}

// Rows that are lost or changed stop their partition when they are needed,
// with a message that says what to do; verify finds them before.
func TestRowDamage(t *testing.T) {
	for name, c := range map[string]struct {
		hurt func(s jetstream.Stream, ref rowRef, b *rig) error
		says []string
	}{
		"deleted": {func(s jetstream.Stream, ref rowRef, b *rig) error { return s.DeleteMsg(context.Background(), ref.seq) }, []string{"is lost", "restore the store"}},
		"gone":    {func(s jetstream.Stream, ref rowRef, b *rig) error { return s.Purge(context.Background()) }, []string{"is lost", "restore the store"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, m, conf := opened(t, "hurt", 6)
			s, err := b.js.Stream(t.Context(), rowStream("hurt"))
			if err != nil {
				t.Fatal(err)
			}
			for _, ref := range b.named("hurt", 0) {
				if err := c.hurt(s, ref, b); err != nil {
					t.Fatal(err)
				}
			}
			check := &Stage{Config: conf, Model: m, NewEngine: generic}
			_, err = check.Verify(t.Context(), b.js, 0)
			mentions(t, err, c.says...)
			j, err := OpenJob(t.Context(), b.js, "hurt")
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = j.Snapshot(t.Context(), 0)
			mentions(t, err, c.says...)
			before := len(b.predictions("hurt"))
			r := b.start(m, conf)
			for i := range 6 {
				b.publish([]packet{one(fmt.Sprint("k", i), 2, 1, 1, true)})
			}
			mentions(t, r.wait(t), c.says...)
			if n := len(b.predictions("hurt")); n != before {
				t.Errorf("%d streams have predictions", n)
			}
		})
	}
}

// A worker that was overtaken finds rows missing that its successor has put
// out of use: it is late, and its partition not broken.
func TestMissingRowOfTheOvertaken(t *testing.T) {
	b, m, c := opened(t, "late", 6)
	r := b.start(m, c)
	out, err := b.js.Stream(t.Context(), outputStream("late"))
	if err != nil {
		t.Fatal(err)
	}
	other := &committer{js: b.js, stream: out, job: "late", worker: "other", log: b.log, retries: func() {}}
	empty, err := (&run{meta: codec.PredictionMeta{Labels: []string{"a", "b"}}}).newEmpty()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.claim(t.Context(), empty, func(record) bool { return false }); err != nil {
		t.Fatal(err)
	}
	s, err := b.js.Stream(t.Context(), rowStream("late"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		b.publish([]packet{one(fmt.Sprint("k", i), 2, 1, 1, true)})
	}
	r.until(t, "fencing", func(s Stats) bool { return s.Fenced == 1 && s.Stopped == 0 })
	// It claims the partition again, and now the rows are missed.
	mentions(t, r.wait(t), "is lost")
}

// A row is taken only if it is what was stored, bit for bit.
func TestParseRow(t *testing.T) {
	row := []uint32{1, 2, 0xffffffff}
	data := appendRowWords(nil, row)
	ref := rowRef{3, hashOf(data)}
	if got, err := parseRow(data, ref, 3, "X"); err != nil || !slices.Equal(got, row) {
		t.Fatalf("%v, %v", got, err)
	}
	for bit := range 8 * len(data) {
		data[bit/8] ^= 1 << (bit % 8)
		if _, err := parseRow(data, ref, 3, "X"); err == nil {
			t.Fatalf("bit %d is wrong and nobody says so", bit)
		}
		data[bit/8] ^= 1 << (bit % 8)
	}
	for _, words := range []int{2, 4} {
		if _, err := parseRow(data, ref, words, "X"); err == nil {
			t.Errorf("a row of 3 words passes for one of %d", words)
		}
	}
}

// States with rows stored apart move to another job and go on there, bit for
// bit.
func TestSpilledStatesMove(t *testing.T) {
	streams := recordings(10, 40)
	packets, sent := mixed(streams, 41)
	m := testModel(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	exp := direct(t, m, streams, sent)
	b := newRig(t)
	c := quick("old", 1)
	c.MaxSlots = 2
	r := b.start(m, c)
	half := len(packets) / 2
	b.publish(packets[:half])
	b.settle(r, half)
	r.stop(t)
	got := b.predictions("old")
	j, err := OpenJob(t.Context(), b.js, "old")
	if err != nil {
		t.Fatal(err)
	}
	if len(b.named("old", 0)) == 0 {
		t.Fatal("no row is stored apart: the test has lost its subject")
	}
	raw, name, err := j.Snapshot(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	heir := quick("heir", 1)
	heir.InputSubject, heir.MaxSlots = "other.*", 3
	store, err := b.js.ObjectStore(t.Context(), snapshotBucket("old"))
	if err != nil {
		t.Fatal(err)
	}
	bare, err := store.GetBytes(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	mentions(t, Import(t.Context(), b.js, heir, bare), "stored apart", "state export")
	_, err = ReadState(bare)
	mentions(t, err, "stored apart")
	if err := Import(t.Context(), b.js, heir, raw); err != nil {
		t.Fatal(err)
	}
	r = b.start(m, heir)
	for _, p := range packets[half:] {
		b.publishOn("other.", p)
	}
	for name, ps := range b.await("heir", count(exp)-count(got)) {
		got[name] = append(got[name], ps...)
	}
	r.stop(t)
	same(t, got, exp)
}

// A store of rows that does not answer gives up the partition that needs it,
// to be claimed again, and leaves the others alone.
func TestRowStoreAway(t *testing.T) {
	m := testModel(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := Config{Job: "away", Partitions: 2, Shards: 1, MaxSlots: 2}.WithDefaults()
	snaps, err := snapshotsOf(t.Context(), b.js, c)
	if err != nil {
		t.Fatal(err)
	}
	snaps.patience = 300 * time.Millisecond
	l := newLone(t, m, Config{MaxSlots: 2})
	l.store, l.last = snaps, t.Context()
	held := func(p *partition) {
		ctx, stop := context.WithCancel(t.Context())
		p.tenure = &tenure{run: &run{Stage: &Stage{}, worker: fmt.Sprint("w", p.id)}, part: p, ctx: ctx, stop: stop}
		p.tenure.epoch.Store(1)
	}
	other := newPartition(1, 1)
	held(l.p)
	held(other)
	l.b = newBatch(2)
	take := func(p *partition, key string) {
		t.Helper()
		j := l.job(rows(key, 0, false, 1, 2))
		j.part = p
		l.b.reset()
		if err := errors.Join(l.ingest(l.b, j), l.advance(l.b)); err != nil {
			t.Fatal(err)
		}
	}
	take(other, "x")
	take(l.p, "a")
	take(l.p, "b") // x is stored
	if n := l.counters.spilled.Load(); n != 1 {
		t.Fatalf("%d rows stored, want 1", n)
	}
	b.srv.Close()
	take(other, "x") // needs its row, and a's or b's slot
	if !other.failed() || !errors.Is(other.tenure.err(), errLater) {
		t.Fatalf("the partition that needs a row: %v", other.tenure.err())
	}
	if l.p.failed() {
		t.Fatal(l.p.tenure.err())
	}
	l.drop(other)
	take(l.p, "a")
	take(l.p, "b")
	if l.p.failed() {
		t.Fatalf("the other partition: %v", l.p.tenure.err())
	}
	take(l.p, "c")
	if !errors.Is(l.p.tenure.err(), errLater) {
		t.Fatalf("a third sequence with room for two: %v", l.p.tenure.err())
	}
}

// The list of residents is in order of use whatever comes and goes.
func TestResidents(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	all := make([]*stream, 6)
	for i := range all {
		all[i] = &stream{id: fmt.Sprint(i)}
	}
	var l residents
	var want []*stream // oldest first
	for range 2000 {
		st := all[rng.IntN(len(all))]
		want = slices.DeleteFunc(want, func(o *stream) bool { return o == st })
		if rng.IntN(3) == 0 {
			l.remove(st)
		} else {
			l.use(st)
			want = append(want, st)
		}
		var up, down []*stream
		for o := l.oldest; o != nil; o = o.newer {
			up = append(up, o)
		}
		for o := l.newest; o != nil; o = o.older {
			down = append(down, o)
		}
		slices.Reverse(down)
		if !slices.Equal(up, want) || !slices.Equal(down, want) {
			t.Fatalf("%d, %d streams in the list, want %d", len(up), len(down), len(want))
		}
	}
}

// snapshotsOf is the store of a job that has not run.
func snapshotsOf(ctx context.Context, js jetstream.JetStream, c Config) (*snapshots, error) {
	c = c.WithDefaults()
	if err := ensureStreams(ctx, js, c, slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	return openSnapshots(ctx, js, c)
}

// Rows that came and went before the first snapshot are named by none, and
// deleted with it.
func TestRowsBeforeTheFirstSnapshot(t *testing.T) {
	m := testModel(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := quick("early", 1)
	c.MaxSlots, c.SnapshotMessages = 2, 1000
	r := b.start(m, c)
	const streams = 8
	for seq := range uint64(3) {
		for i := range streams {
			b.publish([]packet{one(fmt.Sprint("k", i), seq+1, 2, float32(i)/9, false)})
		}
	}
	if s := b.settle(r, 3*streams); s.Fetched < streams {
		t.Fatalf("%d rows came back: the test has lost its subject", s.Fetched)
	}
	r.stop(t)
	b.onlyNamedRows("early", 1)
}
