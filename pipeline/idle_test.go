package pipeline

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/owner"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// The server puts an end event into the partition it is for.
func TestIdleKeyIsInItsPartition(t *testing.T) {
	b := newRig(t)
	c := Config{Job: "where", Partitions: 64}.WithDefaults()
	if err := store.EnsureStreams(t.Context(), b.js, c.layout(), b.log); err != nil {
		t.Fatal(err)
	}
	in, err := b.js.Stream(t.Context(), wire.InputStream(c.Job))
	if err != nil {
		t.Fatal(err)
	}
	for p := range c.Partitions {
		ack, err := b.js.PublishMsg(t.Context(), owner.IdleMessage(c.InputSubject, c.Partitions, p, []byte("{}")))
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

// What the owner asks for: the silent ones, in the order of their silence,
// and nothing while time stood still.
func TestSilent(t *testing.T) {
	l := newLone(t, pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked}), Config{Idle: time.Minute, Forget: time.Hour})
	at := func(d time.Duration, p ...pipelinetest.Packet) { l.p.Now = d; l.feedAll(p...) }
	at(1*time.Second, pipelinetest.Rows("old", 1, true, 1, 2))
	at(50*time.Minute, pipelinetest.Rows("quiet", 1, false, 1, 2), pipelinetest.Rows("ended", 1, true, 1, 2), pipelinetest.Rows("gap", 1, false, 1, 2))
	at(60*time.Minute, pipelinetest.Rows("fresh", 1, false, 1, 2), pipelinetest.Rows("gap", 3, false, 1, 2))
	l.p.Now = 60*time.Minute + 30*time.Second
	if e := fmt.Sprintf("%+v", *l.p.State.Silent(l.Silence(l.p))); e != "{Partition:0 After:6 Streams:[{Key:old Stream:old Forget:true} {Key:quiet Stream:quiet Forget:false}] Gaps:[]}" {
		t.Error(e)
	}
	l.p.Now = 61 * time.Minute
	if e := fmt.Sprintf("%+v", *l.p.State.Silent(l.Silence(l.p))); e != "{Partition:0 After:6 Streams:[{Key:old Stream:old Forget:true} {Key:quiet Stream:quiet Forget:false} {Key:fresh Stream:fresh Forget:false}] Gaps:[gap]}" {
		t.Error(e)
	}
	l.p.Resumed = 61 * time.Minute
	if e := l.p.State.Silent(l.Silence(l.p)); !e.Empty() {
		t.Errorf("after an outage: %+v", e)
	}
	l.Pace.IdleBytes = 100
	l.p.Now = 3 * time.Hour
	if e := l.p.State.Silent(l.Silence(l.p)); len(e.Streams) != 1 {
		t.Errorf("an event of %d streams where one fits", len(e.Streams))
	}
}

// Producers that stop in the middle of sequences, workers that are killed at
// any moment, their end events written twice and late: predictions and final
// states are those of a stage that nobody disturbed, fed the same log.
func TestIdleThroughCrashes(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
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
				p := pipelinetest.One(key, seqs[key], 2, rng.Float32(), rng.IntN(4) == 0)
				if rng.IntN(9) == 0 { // never comes
					continue
				}
				b.publish([]pipelinetest.Packet{p})
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
	in, err := b.js.Stream(b.t.Context(), wire.InputStream(job))
	if err != nil {
		b.t.Fatal(err)
	}
	for seq := uint64(1); seq <= in.CachedInfo().State.LastSeq; seq++ {
		m, err := in.GetMsg(b.t.Context(), seq)
		if err != nil {
			b.t.Fatal(err)
		}
		if m.Header.Get(wire.HeaderKind) != wire.KindIdle {
			continue
		}
		key := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
		if _, err := b.js.PublishMsg(b.t.Context(), &nats.Msg{Subject: "sensors." + key, Header: m.Header, Data: m.Data}); err != nil {
			b.t.Fatal(err)
		}
	}
}

// An end event that does not come back is said to be missing: without the
// right to publish, silent streams would stay open and nobody would know.
func TestLostIdleEventIsLogged(t *testing.T) {
	b := newRig(t)
	book := &pipelinetest.LogBook{}
	l := newLone(t, pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked}), Config{Idle: time.Second, Lease: time.Minute})
	l.Log = book.Logger()
	l.p.Owner = &owner.Ownership{W: &owner.Worker{Server: owner.Server{JS: b.js}, Subject: DefaultInputSubject, Partitions: 1}, Part: l.p} // there is no such input
	l.feedAll(pipelinetest.Rows("a", 1, false, 1, 2))
	for pass, want := range []int{0, 0, 0, 1} {
		l.Pace.Began = time.Now().Add(-time.Duration(10+6*pass) * time.Second)
		if err := l.Observe(l.p); err != nil {
			t.Fatal(err)
		}
		if n := book.Lines("did not arrive in the input"); n != want {
			t.Errorf("pass %d: %d lines, want %d:\n%s", pass, n, want, book)
		}
		if pass > 0 && l.p.Asked == 0 {
			t.Errorf("pass %d: nothing was asked for", pass)
		}
	}
}
