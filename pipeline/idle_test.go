package pipeline

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// event is an end event as an input message.
func event(t testing.TB, e idleEvent) packet {
	t.Helper()
	data, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return packet{key: idleKey(e.Partition, 1), raw: data, header: map[string]string{headerKind: kindIdle}}
}

// ends names the only streams of keys.
func ends(after uint64, keys ...string) idleEvent {
	e := idleEvent{After: after}
	for _, k := range keys {
		e.Streams = append(e.Streams, streamName{Key: k, Stream: k})
	}
	return e
}

// The server puts an end event into the partition it is for.
func TestIdleKeyIsInItsPartition(t *testing.T) {
	b := newRig(t)
	c := Config{Job: "where", Partitions: 64}.WithDefaults()
	if err := ensureStreams(t.Context(), b.js, c, b.log); err != nil {
		t.Fatal(err)
	}
	in, err := b.js.Stream(t.Context(), inputStream(c.Job))
	if err != nil {
		t.Fatal(err)
	}
	for p := range c.Partitions {
		ack, err := b.js.PublishMsg(t.Context(), idleMessage(c, p, []byte("{}")))
		if err != nil {
			t.Fatal(err)
		}
		m, err := in.GetMsg(t.Context(), ack.Sequence)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("where.in.%d.", p); !strings.HasPrefix(m.Subject, want) {
			t.Errorf("stored on %s, want %s*", m.Subject, want)
		}
	}
}

// An end event closes a sequence as an end mark would, and says why.
func TestIdleEndsLikeAMark(t *testing.T) {
	for name, policy := range map[string]reservoir.Policy{"marked": {Kind: reservoir.Marked}, "early": {Kind: reservoir.Marked, Early: 2}} {
		m := testModel(t, 3, policy)
		l, exp := newLone(t, m, Config{}), newLone(t, m, Config{})
		first, second := rows("a", 1, false, 1, 2, 3, 4, 5, 6), rows("a", 2, true, 7, 8)
		got := l.feedAll(first, event(t, ends(1, "a")), event(t, ends(2, "a")), second)
		first.header[HeaderEnd] = "true"
		want := exp.feedAll(first, second)
		last := len(want) - 2
		want[last].Flags |= codec.FlagIdle
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
		}
		if s := l.counters.Stats(); s.Idle != 1 || l.pool.used() != 0 {
			t.Errorf("%s: counted %d ends, %d rows in use", name, s.Idle, l.pool.used())
		}
	}
}

// Where the policy fixes the length, an idle sequence is given up without a
// prediction and its rows are free; the next sample begins anew.
func TestIdleDiscards(t *testing.T) {
	for _, policy := range []reservoir.Policy{{Kind: reservoir.Count, Length: 3}, {Kind: reservoir.Window, Length: 4, Hop: 2}, {Kind: reservoir.Endless, Early: 4}} {
		m := testModel(t, 3, policy)
		l := newLone(t, m, Config{NonFinite: codec.Hold})
		if got := l.feedAll(rows("a", 1, false, 1, 2, 3, 4), event(t, ends(1, "a"))); len(got) != 0 || l.pool.used() != 0 {
			t.Fatalf("%v: %d rows in use, predictions %+v", policy, l.pool.used(), got)
		}
		again := rows("a", 2, false, float32Nan, 1, 2, 1, 3, 1, 4, 1)
		got := l.feedAll(again)
		again.seq = 1
		want := newLone(t, m, Config{NonFinite: codec.Hold}).feedAll(again)
		for i := range want {
			want[i].Seq = 2
		}
		if len(want) == 0 || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v:\n got %+v\nwant %+v", policy, got, want)
		}
	}
}

// A sample that is in the log before the event wins, whoever wrote the event
// and whatever it had seen; only the stream named is concerned.
func TestIdleEventComesTooLate(t *testing.T) {
	m := testModel(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	l := newLone(t, m, Config{})
	got := l.feedAll(
		rows("a", 1, false, 1, 2), rows("b", 1, false, 1, 2), rows("a", 2, false, 3, 4), // inputs 1 to 3
		event(t, ends(2, "a", "b", "nobody")), rows("a", 3, true, 5, 6))
	if flags(got) != "1.0:idle 3.0:" {
		t.Errorf("predictions %q", flags(got))
	}
	multi := packet{key: "g", batch: codec.Batch{Rows: 4, X: []float32{1, 2, 3, 4, 5, 6, 7, 8}, Keys: []string{"u", "v"}, Key: []int32{0, 1, 0, 1}}}
	e := idleEvent{After: 6, Streams: []streamName{{Key: "g", Stream: "v"}}}
	if got := l.feedAll(multi, event(t, e)); len(got) != 1 || got[0].Stream != "v" || !l.p.sources["g"].streams["u"].seq.open() {
		t.Errorf("a gateway's stream: %+v", got)
	}
}

// Messages that wait for a missing one are used before a sequence may end.
func TestIdleGivesGapsUp(t *testing.T) {
	m := testModel(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	l := newLone(t, m, Config{})
	got := l.feedAll(
		rows("a", 1, false, 1, 2), rows("a", 3, false, 3, 4), // 3 waits
		event(t, ends(2, "a")),                             // not yet
		event(t, idleEvent{After: 1, Gaps: []string{"a"}}), // has been heard since
		rows("a", 3, false, 3, 4),
		event(t, idleEvent{After: 5, Gaps: []string{"a", "x"}}),
		rows("a", 4, true, 5, 6))
	if flags(got) != "4.0:gap" || len(l.p.sources["a"].held) != 0 || l.p.heldBytes != 0 {
		t.Errorf("predictions %q, %d held", flags(got), len(l.p.sources["a"].held))
	}
	if got := l.feedAll(rows("a", 5, false, 1, 2), event(t, ends(8, "a"))); flags(got) != "5.0:idle" {
		t.Errorf("after the gap: %q", flags(got))
	}
}

// Forgetting removes every trace of a key.
func TestIdleForgets(t *testing.T) {
	for _, policy := range []reservoir.Policy{{Kind: reservoir.Marked}, {Kind: reservoir.Window, Length: 4, Hop: 2}} {
		l := newLone(t, testModel(t, 3, policy), Config{})
		l.feedAll(rows("a", 1, false, 1, 2), rows("b", 1, true, 1, 2))
		e := ends(2, "a", "b")
		e.Streams[0].Forget, e.Streams[1].Forget = true, true
		l.feedAll(event(t, e))
		if err := l.rehash(l.p); err != nil {
			t.Fatal(err)
		}
		if s := l.counters.Stats(); len(l.p.sources) != 0 || l.p.recency.Len() != 0 || l.pool.used() != 0 || s.Streams != 0 || s.Forgotten != 2 || l.p.sum != (digest{}) {
			t.Errorf("%v: %d keys, %d rows in use, %+v, digest %v", policy, len(l.p.sources), l.pool.used(), s, l.p.sum)
		}
	}
}

// What is no end event becomes a dead letter and changes nothing.
func TestIdleEventRefused(t *testing.T) {
	l := newLone(t, testModel(t, 3, reservoir.Policy{Kind: reservoir.Marked}), Config{})
	l.feedAll(rows("a", 1, false, 1, 2))
	if err := l.rehash(l.p); err != nil {
		t.Fatal(err)
	}
	before := l.p.sum
	many := ends(1, slices.Repeat([]string{"a"}, idleEntries+1)...)
	for _, raw := range []string{"", "{", `{"partition":1}`, `{"partition":0,"after":-1}`, `{"partition":0} x`, `{"other":0}`, "[1]", string(event(t, many).raw)} {
		l.b.reset()
		j := l.job(packet{key: idleKey(0, 1), raw: []byte(raw), header: map[string]string{headerKind: kindIdle}})
		if err := l.ingest(l.b, j); err != nil {
			t.Fatal(err)
		}
		if len(l.b.dead) != 1 || !strings.Contains(l.b.dead[0].reason, "end event") {
			t.Errorf("%.40q: dead letters %+v", raw, l.b.dead)
		}
	}
	foreign := event(t, ends(1, "a"))
	foreign.key = "k"
	ahead := event(t, ends(l.next+3, "a"))
	for want, p := range map[string]packet{`on key "k"`: foreign, "copied from another input": ahead} {
		l.b.reset()
		if err := l.ingest(l.b, l.job(p)); err != nil {
			t.Fatal(err)
		}
		if len(l.b.dead) != 1 || !strings.Contains(l.b.dead[0].reason, want) {
			t.Errorf("dead letters %+v, want %q", l.b.dead, want)
		}
	}
	if err := l.rehash(l.p); err != nil {
		t.Fatal(err)
	}
	if l.p.sum != before || len(l.p.sources) != 1 {
		t.Error("it changed the state")
	}
}

func FuzzIdleEvent(f *testing.F) {
	f.Add([]byte(`{"partition":0,"after":3,"streams":[{"key":"a","stream":"a","forget":true}],"gaps":["b"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := parseIdle(data, 0, 1<<63)
		if err != nil {
			return
		}
		again, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := parseIdle(again, 0, 1<<63); err != nil || fmt.Sprint(*back) != fmt.Sprint(*e) {
			t.Fatalf("%q reads as %+v, written again as %+v, %v", data, e, back, err)
		}
	})
}

// What the owner asks for: the silent ones, in the order of their silence,
// and nothing while time stood still.
func TestSilent(t *testing.T) {
	l := newLone(t, testModel(t, 3, reservoir.Policy{Kind: reservoir.Marked}), Config{Idle: time.Minute, Forget: time.Hour})
	at := func(d time.Duration, p ...packet) { l.p.now = d; l.feedAll(p...) }
	at(1*time.Second, rows("old", 1, true, 1, 2))
	at(50*time.Minute, rows("quiet", 1, false, 1, 2), rows("ended", 1, true, 1, 2), rows("gap", 1, false, 1, 2))
	at(60*time.Minute, rows("fresh", 1, false, 1, 2), rows("gap", 3, false, 1, 2))
	l.p.now = 60*time.Minute + 30*time.Second
	if e := fmt.Sprintf("%+v", *l.silent(l.p)); e != "{Partition:0 After:6 Streams:[{Key:old Stream:old Forget:true} {Key:quiet Stream:quiet Forget:false}] Gaps:[]}" {
		t.Error(e)
	}
	l.p.now = 61 * time.Minute
	if e := fmt.Sprintf("%+v", *l.silent(l.p)); e != "{Partition:0 After:6 Streams:[{Key:old Stream:old Forget:true} {Key:quiet Stream:quiet Forget:false} {Key:fresh Stream:fresh Forget:false}] Gaps:[gap]}" {
		t.Error(e)
	}
	l.p.resumed = 61 * time.Minute
	if e := l.silent(l.p); !e.empty() {
		t.Errorf("after an outage: %+v", e)
	}
	l.idleBytes = 100
	l.p.now = 3 * time.Hour
	if e := l.silent(l.p); len(e.Streams) != 1 {
		t.Errorf("an event of %d streams where one fits", len(e.Streams))
	}
}

// Producers that stop in the middle of sequences, workers that are killed at
// any moment, their end events written twice and late: predictions and final
// states are those of a stage that nobody disturbed, fed the same log.
func TestIdleThroughCrashes(t *testing.T) {
	m := testModel(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := quick("idle", 2)
	c.Idle, c.Forget = 300*time.Millisecond, time.Hour
	rng := rand.New(rand.NewPCG(8, 1))
	const keys, rounds = 12, 4
	seqs := map[string]uint64{}
	for round := range rounds {
		r := b.start(m, c)
		for k := range keys {
			key := fmt.Sprint("k", k)
			for range 1 + rng.IntN(3) {
				seqs[key]++
				p := one(key, seqs[key], 2, rng.Float32(), rng.IntN(4) == 0)
				if rng.IntN(9) == 0 { // never comes
					continue
				}
				b.publish([]packet{p})
			}
		}
		if round < rounds-1 {
			time.Sleep(time.Duration(250+100*round) * time.Millisecond) // around the limit
			r.crash(t)
			b.expire("idle")
			b.repeatEvents("idle")
			continue
		}
		// All sequences end, and every gap is given up.
		for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			if s := r.counters.Stats(); s.Slots == 0 && s.Lag == 0 && s.Idle > 0 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("sequences are still open: %+v", r.counters.Stats())
			}
		}
		r.stop(t)
	}
	got := b.predictions("idle")
	sums := b.digests("idle", 2)
	n := 0
	for _, ps := range got {
		for _, p := range ps {
			if p.Flags&codec.FlagIdle != 0 {
				n++
			}
		}
	}
	if n < keys/2 {
		t.Errorf("%d sequences were ended by silence, want at least %d", n, keys/2)
	}

	// The same log again, without any clock.
	b.forgetOutput("idle")
	c.Idle, c.Forget = 0, 0
	r := b.start(m, c)
	same(t, b.await("idle", count(got)), got)
	r.until(t, "all input", func(s Stats) bool { return s.Lag == 0 })
	r.stop(t)
	if again := b.digests("idle", 2); !slices.Equal(again, sums) {
		t.Errorf("final states %v, undisturbed %v", sums, again)
	}
}

// repeatEvents publishes every end event in the input once more, as a worker
// would that wakes up late.
func (b *rig) repeatEvents(job string) {
	b.t.Helper()
	in, err := b.js.Stream(b.t.Context(), inputStream(job))
	if err != nil {
		b.t.Fatal(err)
	}
	for seq := uint64(1); seq <= in.CachedInfo().State.LastSeq; seq++ {
		m, err := in.GetMsg(b.t.Context(), seq)
		if err != nil {
			b.t.Fatal(err)
		}
		if m.Header.Get(headerKind) != kindIdle {
			continue
		}
		key := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
		if _, err := b.js.PublishMsg(b.t.Context(), &nats.Msg{Subject: "sensors." + key, Header: m.Header, Data: m.Data}); err != nil {
			b.t.Fatal(err)
		}
	}
}

// digests are the final states' of a job that has been stopped.
func (b *rig) digests(job string, partitions int) (all []string) {
	b.t.Helper()
	for p := range partitions {
		_, r := b.last(job, p)
		if r.kind != kindReleased {
			b.t.Fatalf("partition %d ends with %q, want a release", p, r.kind)
		}
		all = append(all, r.mark.digest.String())
	}
	return all
}

// forgetOutput leaves nothing of a job but its input.
func (b *rig) forgetOutput(job string) {
	b.t.Helper()
	for _, name := range []string{outputStream(job), deadLetterStream(job), rowStream(job), "OBJ_" + snapshotBucket(job), "KV_" + memberBucket(job)} {
		if err := b.js.DeleteStream(b.t.Context(), name); err != nil {
			b.t.Fatal(name, err)
		}
	}
}

// What a partition's state is does not depend on which messages the end event
// shared a batch with: a replay cuts the log into other batches.
func TestIdleAnywhereInABatch(t *testing.T) {
	for _, policy := range []reservoir.Policy{{Kind: reservoir.Marked}, {Kind: reservoir.Count, Length: 9}, {Kind: reservoir.Window, Length: 4, Hop: 2}} {
		m := testModel(t, 3, policy)
		packets := []packet{rows("a", 1, false, 1, 2, 3, 4, 5, 6), event(t, ends(1, "a")), rows("a", 2, false, 7, 8)}
		var sums []digest
		for cuts := range 4 { // a bit per border between two messages
			l := newLone(t, m, Config{})
			for i, p := range packets {
				if err := l.ingest(l.b, l.job(p)); err != nil {
					t.Fatal(err)
				}
				if last := i == len(packets)-1; !last && cuts>>i&1 == 0 {
					continue
				}
				if err := l.advance(l.b); err != nil {
					t.Fatal(err)
				}
				l.b.reset()
			}
			if err := l.rehash(l.p); err != nil {
				t.Fatal(err)
			}
			if l.pool.used() != 1 {
				t.Errorf("%v, cuts %02b: %d rows in use, want 1", policy, cuts, l.pool.used())
			}
			sums = append(sums, l.p.sum)
		}
		for cuts, sum := range sums {
			if sum != sums[0] {
				t.Errorf("%v: cuts %02b give state %v, want %v", policy, cuts, sum, sums[0])
			}
		}
	}
}

// An end event that does not come back is said to be missing: without the
// right to publish, silent streams would stay open and nobody would know.
func TestLostIdleEventIsLogged(t *testing.T) {
	b := newRig(t)
	book := &logBook{}
	l := newLone(t, testModel(t, 3, reservoir.Policy{Kind: reservoir.Marked}), Config{Idle: time.Second, Lease: time.Minute})
	l.log = book.logger()
	l.p.tenure = &tenure{run: &run{cfg: Config{Job: "lost"}.WithDefaults(), js: b.js}} // there is no such input
	l.feedAll(rows("a", 1, false, 1, 2))
	for pass, want := range []int{0, 0, 0, 1} {
		l.began = time.Now().Add(-time.Duration(10+6*pass) * time.Second)
		if err := l.observe(l.p); err != nil {
			t.Fatal(err)
		}
		if n := book.lines("has not come back"); n != want {
			t.Errorf("pass %d: %d lines, want %d:\n%s", pass, n, want, &book.text)
		}
		if pass > 0 && l.p.asked == 0 {
			t.Errorf("pass %d: nothing was asked for", pass)
		}
	}
}
