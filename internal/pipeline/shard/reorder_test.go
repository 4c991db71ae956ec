package shard

import (
	"fmt"
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Messages out of order give the same state as in order, and are flagged; missing
// messages are given up when too many messages are held.
func TestReorder(t *testing.T) {
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	msg := func(seq uint64, end bool) pipelinetest.Packet {
		return pipelinetest.One("s", seq, 2, float32(seq)/10, end)
	}
	exp := newLone(t, m, Config{}).feedAll(msg(1, false), msg(2, false), msg(3, false), msg(4, true), msg(5, true))
	l := newLone(t, m, Config{Reorder: 3})
	got := l.feedAll(msg(3, false), msg(1, false), msg(4, true), msg(3, false), msg(2, false), msg(5, true))
	if f := pipelinetest.Flags(got); f != "4.1:reordered 5.1:" {
		t.Errorf("predictions %q", f)
	}
	for i := range exp {
		if !pipelinetest.SameBits(got[i].Scores, exp[i].Scores) {
			t.Errorf("prediction %d differs from the one in order", i)
		}
	}
	if c := l.counters; c.Reordered.Load() != 2 || c.Duplicates.Load() != 1 || c.Gaps.Load() != 0 || l.p.State.HeldBytes != 0 {
		t.Errorf("counted %d reordered, %d repeats, %d gaps, %d bytes held", c.Reordered.Load(), c.Duplicates.Load(), c.Gaps.Load(), l.p.State.HeldBytes)
	}
	// 6 never comes: 7, 8 and 9 wait, 10 exceeds the limit.
	if got := pipelinetest.Flags(l.feedAll(msg(7, false), msg(8, true), msg(9, true))); got != "" {
		t.Errorf("predictions %q while one is missing", got)
	}
	if got := pipelinetest.Flags(l.feedAll(msg(10, true))); got != "8.1:gap 9.1: 10.1:" {
		t.Errorf("after giving up: %q", got)
	}
	if got := l.feedAll(msg(6, true)); len(got) != 0 || l.counters.Duplicates.Load() != 2 {
		t.Errorf("a message that was given up came late: %v", got)
	}
}

// The bytes of held messages are limited over all keys of a partition.
func TestReorderBytes(t *testing.T) {
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	size := len(pipelinetest.One("k", 2, 2, 1, true).Payload(t))
	l := newLone(t, m, Config{ReorderBytes: 4 * size})
	held := 0
	for i := range 20 {
		held += len(l.feedAll(pipelinetest.One(fmt.Sprintf("k%d", i), 2, 2, 1, true)))
		if l.p.State.HeldBytes > 4*size {
			t.Fatalf("%d bytes wait, want at most %d", l.p.State.HeldBytes, 4*size)
		}
	}
	if held < 16 {
		t.Errorf("%d of 20 messages given up on, want all but a few", held)
	}
}

// A producer with restarted numbers leaves no message held for old numbers.
func TestReorderIncarnation(t *testing.T) {
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	l := newLone(t, m, Config{})
	anew := pipelinetest.One("s", 1, 1, 1, true)
	anew.Header[wire.HeaderIncarnation] = "b"
	got := pipelinetest.Flags(l.feedAll(pipelinetest.One("s", 1, 1, 1, true), pipelinetest.One("s", 3, 1, 1, true), anew))
	if want := "1.0: 3.0:gap 1.0:gap"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A state in a snapshot goes on as the state itself: open sequences, held
// messages, flags, the order of forgetting.
func TestSnapshotGoesOn(t *testing.T) {
	for name, policy := range map[string]reservoir.Policy{
		"marked": {Kind: reservoir.Marked, Early: 3}, "window": {Kind: reservoir.Window, Length: 6, Hop: 2}, "count": {Kind: reservoir.Count, Length: 7},
	} {
		t.Run(name, func(t *testing.T) {
			m := pipelinetest.Model(t, 3, policy)
			c := Config{NonFinite: codec.Hold, MaxStreams: 40}
			packets, _ := pipelinetest.Mixed(pipelinetest.Recordings(12, 60), 17)
			for i := range packets {
				if i%9 == 0 {
					packets[i].Seq += 2 // some never come
				}
				if i%5 == 0 {
					packets[i].Batch.X[0] = pipelinetest.NaN
				}
			}
			whole := newLone(t, m, c)
			half := len(packets) / 2
			whole.feedAll(packets[:half]...)
			if err := whole.updateDigest(); err != nil {
				t.Fatal(err)
			}
			b, err := whole.encodeState()
			if err != nil {
				t.Fatal(err)
			}
			p, err := state.Decode(b, whole.Machine.Shape, 0)
			if err != nil {
				t.Fatal(err)
			}
			next := newLone(t, m, c)
			next.p.State.TakeOver(p)
			next.next = whole.next
			if err := next.InstallPartition(next.b, next.p); err != nil {
				t.Fatal(err)
			}
			if next.p.State.Sum != whole.p.State.Sum || next.p.State.HeldBytes != whole.p.State.HeldBytes || next.p.State.HeldBytes == 0 {
				t.Fatalf("digest %v, want %v; %d bytes held, want %d, not 0", next.p.State.Sum, whole.p.State.Sum, next.p.State.HeldBytes, whole.p.State.HeldBytes)
			}
			again, err := next.encodeState()
			if err != nil || string(again) != string(b) {
				t.Fatalf("the snapshot of a restored state differs (%v)", err)
			}
			w, g := whole.feedAll(packets[half:]...), next.feedAll(packets[half:]...)
			pipelinetest.Same(t, map[string][]codec.Prediction{"all": g}, map[string][]codec.Prediction{"all": w})
			for _, l := range []*lone{whole, next} {
				if err := l.updateDigest(); err != nil {
					t.Fatal(err)
				}
			}
			if next.p.State.Sum != whole.p.State.Sum {
				t.Error("digests part later")
			}
		})
	}
}

// The digest is the same however messages are batched, and differs when any
// bit of the state does.
func TestDigest(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	var packets []pipelinetest.Packet
	for i := range 60 { // of nine streams, five are remembered
		packets = append(packets, pipelinetest.One(fmt.Sprintf("k%d", i*2%9), 0, 1+i%3, float32(i)/60, true))
	}
	c := Config{MaxStreams: 5}
	single, joined := newLone(t, m, c), newLone(t, m, c)
	single.feedAll(packets...)
	for from := 0; from < len(packets); from += 6 {
		joined.b.Reset()
		for _, p := range packets[from:min(from+6, len(packets))] {
			if err := joined.takeJob(joined.b, joined.jobOf(p)); err != nil {
				t.Fatal(err)
			}
		}
		if err := joined.AdvanceBatch(joined.b); err != nil {
			t.Fatal(err)
		}
		if err := joined.updateDigest(); err != nil {
			t.Fatal(err)
		}
	}
	if err := single.updateDigest(); err != nil {
		t.Fatal(err)
	}
	if single.p.State.Sum != joined.p.State.Sum || single.counters.Forgotten.Load() == 0 {
		t.Fatalf("digests %v and %v of one history; %d forgotten, want some", single.p.State.Sum, joined.p.State.Sum, single.counters.Forgotten.Load())
	}
	before := single.p.State.Sum
	single.feedAll(pipelinetest.One("new", 0, 1, 1, false))
	if err := single.updateDigest(); err != nil {
		t.Fatal(err)
	}
	st := single.p.State.Sources["new"].Streams["new"]
	changed := single.p.State.Sum
	row, err := single.ReadRow(st.Slots[0])
	if err != nil {
		t.Fatal(err)
	}
	row[len(row)-1] ^= 1
	if err := single.pool.engine.WriteState(st.Slots[0], row); err != nil {
		t.Fatal(err)
	}
	single.p.State.Touch(st)
	if err := single.updateDigest(); err != nil {
		t.Fatal(err)
	}
	if single.p.State.Sum == changed || changed == before {
		t.Error("a changed bit of a state does not show in the digest")
	}
}
