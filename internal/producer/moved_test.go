package producer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// A running client, and a client started afterwards, continue when the job's number of
// partitions changes: each key's messages keep their numbers and their order, and a
// last message in the old partition is found.
func TestLiveGoesOnInOtherPartitions(t *testing.T) {
	t.Parallel()
	nc, in := jobInput(t, jetstream.StreamConfig{})
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	o := LiveOptions{Resume: true, Rows: 1, Latency: time.Millisecond}
	keys := []string{"a", "b", "c", "d", "e", "f"}
	publish := func(l *Live, from, to int) {
		t.Helper()
		for _, key := range keys {
			if err := l.Publish(t.Context(), Item{Stream: key, X: testValues(from, to), Times: testTimes(from, to)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	one := newLive(t, nc, o)
	publish(one, 0, 3)
	for i, partitions := range []int{16, 5} {
		c := in.CachedInfo().Config
		c.SubjectTransform.Destination = fmt.Sprintf("eusn.in.{{partition(%d,1)}}.{{wildcard(1)}}", partitions)
		if _, err := js.UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		publish(one, 3+3*i, 6+3*i)
		if err := one.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		one = newLive(t, nc, o)
	}
	publish(one, 9, 12)
	if err := one.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		n, moved := 0, map[string]bool{}
		for _, m := range inputOf(t, in) {
			if m.key != key {
				continue
			}
			if n++; m.h.Get(wire.HeaderSeq) != fmt.Sprint(n) || m.batch.X[0] != float32(n-1) {
				t.Errorf("key %s: message %d has number %s and begins with %v", key, n, m.h.Get(wire.HeaderSeq), m.batch.X[0])
			}
			raw, err := in.GetMsg(t.Context(), m.seq)
			if err != nil {
				t.Fatal(err)
			}
			moved[strings.Split(raw.Subject, ".")[2]] = true
		}
		if n != 12 {
			t.Errorf("key %s has %d messages, want 12", key, n)
		}
		if key == "a" && len(moved) < 2 {
			t.Errorf("key %s was in partition %v only: the test has lost its subject", key, moved)
		}
	}
}
