package shard

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/dynamics"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/stats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// No bytes make the snapshot decoder panic or allocate out of proportion; accepted
// snapshots are re-encoded byte for byte.
func FuzzSnapshot(f *testing.F) {
	m := pipelinetest.Ranged(pipelinetest.Model(f, 3, reservoir.Policy{Kind: reservoir.Window, Length: 6, Hop: 3}))
	l := newLone(f, m, Config{NonFinite: codec.Hold})
	packets, _ := pipelinetest.Mixed(pipelinetest.Recordings(3, 12), 1)
	for i := range packets {
		if i%4 == 0 {
			packets[i].Seq += 3
		}
	}
	l.feedAll(packets...)
	seed, err := l.encodeState()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed[:len(seed)-sha256.Size])
	for st := range l.p.State.Oldest() { // and with stored rows
		st.Away = []wire.RowRef{{Seq: 7, Hash: wire.Digest{1, 2}}, {}}
		st.Slots[0] = -1
	}
	if seed, err = l.encodeState(); err != nil {
		f.Fatal(err)
	}
	f.Add(seed[:len(seed)-sha256.Size])
	f.Add(seed[:200])
	for _, at := range []int{64, 68, 72, 76, 94} { // a number of a shape, or a key's length, that is negative if int has 32 bits
		wild := bytes.Clone(seed[:len(seed)-sha256.Size])
		copy(wild[at:], "\xf0\xff\xff\xff")
		f.Add(wild)
	}
	behind := newLone(f, pipelinetest.Fronted(pipelinetest.Ranged(pipelinetest.Model(f, 3, m.Policy))), Config{NonFinite: codec.Hold})
	behind.feedAll(packets...)
	if seed, err = behind.encodeState(); err != nil {
		f.Fatal(err)
	}
	f.Add(seed[:len(seed)-sha256.Size])
	f.Fuzz(func(t *testing.T, body []byte) {
		sum := sha256.Sum256(body)
		b := append(bytes.Clone(body), sum[:]...) // past the checksum
		for _, sh := range []state.Shape{l.Machine.Shape, behind.Machine.Shape} {
			p, err := state.Decode(b, sh, 0)
			if err != nil {
				continue
			}
			again, err := p.Encode(sh, state.DecodedRows{})
			if err != nil {
				t.Fatal(err)
			}
			if q, err := state.Decode(again, sh, 0); err != nil || q.Done != p.Done || len(q.Sources) != len(p.Sources) || q.Away != p.Away {
				t.Fatalf("not read again: %v", err)
			}
		}
		if _, err := admin.ReadState(b); err != nil && errors.Is(err, wire.ErrRecord) {
			t.Fatal(err)
		}
	})
}

// About 16 states of a snapshot are sampled, for any content, and over several
// snapshots all states. The snapshot does not change.
func TestSnapshotLooksAtStates(t *testing.T) {
	l := newLone(t, pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked}), Config{})
	const streams = 100
	for i := range streams {
		l.feedAll(pipelinetest.Packet{Key: fmt.Sprint("s", i), Batch: codec.Batch{Rows: 2, X: []float32{float32(i), 1, 2, 3}}})
	}
	plain, err := l.encodeState()
	if err != nil {
		t.Fatal(err)
	}
	states := new(stats.States)
	l.SampleStates(states)
	count := func() (n uint64) {
		for _, c := range states.Size.Read(stats.SizeBounds, stats.StateUnit).Counts {
			n += c
		}
		return n
	}
	for k := range 7 { // every seventh row: 100 is 2 more than a multiple of 7
		b, err := l.p.State.Encode(l.Machine.Shape, state.RowsIn{Rows: l.rowReader()})
		if err != nil || !bytes.Equal(b, plain) {
			t.Fatalf("another snapshot of %d bytes, want %d: %v", len(b), len(plain), err)
		}
		if n, want := count(), uint64((k+1)*streams/7); n != want {
			t.Errorf("%d states looked at after %d snapshots, want %d", n, k+1, want)
		}
	}
	// In seven snapshots each of the states was sampled once: all sizes are counted.
	want := 0.
	look := dynamics.NewLook(l.pool.engine.Network().Spec)
	for st := range l.p.State.Oldest() {
		row, err := l.ReadRow(st.Slots[0])
		if err != nil {
			t.Fatal(err)
		}
		want += look.ComputeFigures(row).Size
	}
	// Each is rounded to 1/10,000.
	if got := states.Size.Read(stats.SizeBounds, stats.StateUnit).Sum; math.Abs(got-want) > streams*1e-4 || want == 0 {
		t.Errorf("the states looked at have %v together, want %v", got, want)
	}
}

// While many bytes of snapshots are on their way to the store, the next are taken
// later, but not never.
func TestSnapshotsWaitForOthers(t *testing.T) {
	l := newLone(t, pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked}), Config{SnapshotMessages: 100, SnapshotEvery: time.Minute})
	now := time.Now()
	for _, c := range []struct {
		uploads  int64
		messages int
		age      time.Duration
		want     bool
	}{
		{0, 99, 59 * time.Second, false},
		{0, 100, 0, true},
		{0, 1, time.Minute, true},
		{manyUploads, 100, time.Minute, true},
		{manyUploads + 1, 199, 119 * time.Second, false},
		{manyUploads + 1, 200, 0, true},
		{manyUploads + 1, 1, 2 * time.Minute, true},
		{manyUploads + 1, 0, time.Hour, false},
	} {
		l.Uploads.Store(c.uploads)
		l.p.sinceSnapshot, l.p.snapshotAt = c.messages, now.Add(-c.age)
		if got := l.p.isSnapshotDue(l.Shard, Saving{}, now); got != c.want {
			t.Errorf("%+v: due %v", c, got)
		}
	}
}
