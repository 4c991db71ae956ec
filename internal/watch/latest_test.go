package watch

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// ensured is a server with a job's output and what its alarms need.
func ensured(t *testing.T) (*natsserver.Server, jetstream.JetStream) {
	t.Helper()
	s := pipelinetest.Server(t, natsserver.Options{})
	_, js := pipelinetest.Connect(t, s)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: wire.OutputStream("job"), Subjects: []string{"job.out.*"}}); err != nil {
		t.Fatal(err)
	}
	if err := Ensure(t.Context(), js, "job", 0); err != nil {
		t.Fatal(err)
	}
	return s, js
}

// writer is what a process writes with: its own connection, its own fold.
type writer struct {
	t      *testing.T
	book   *book
	latest *latest
	fold   *alarm.Fold
	outs   uint64 // predictions
}

func newWriter(t *testing.T, s *natsserver.Server, name string) *writer {
	t.Helper()
	nc, js := pipelinetest.Connect(t, s)
	return newWriterOn(t, nc, js, name)
}

func newWriterOn(t *testing.T, nc *nats.Conn, js jetstream.JetStream, name string) *writer {
	t.Helper()
	w := &writer{t: t, fold: alarm.NewFold("log", 0)}
	var err error
	if w.book, err = openBook(t.Context(), js, store.Follow(nc), "job", name, pipelinetest.Log(t)); err != nil {
		t.Fatal(err)
	}
	if w.latest, err = newLatest(nc, w.book); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.latest.close)
	t.Cleanup(w.book.close)
	known, err := w.book.read(t.Context())
	if err == nil && known {
		err = w.book.claim(t.Context())
	} else if err == nil {
		err = w.book.save(t.Context(), w.fold, nil, time.Unix(1, 0))
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// judge takes the messages up to one, each a prediction of each stream; of stream s where
// none is named.
func (w *writer) judge(last uint64, streams ...string) {
	w.t.Helper()
	if len(streams) == 0 {
		streams = []string{"s"}
	}
	for seq := w.fold.Position() + 1; seq <= last; seq++ {
		w.outs += uint64(len(streams))
		m := alarm.Message{Seq: seq, Outs: w.outs, Stored: time.Unix(int64(seq), 0), Labels: []string{"ok"}}
		for _, name := range streams {
			m.Predictions = append(m.Predictions, codec.Prediction{Stream: name, Time: codec.NoTime})
		}
		if _, err := w.fold.Take(&m); err != nil {
			w.t.Fatal(err)
		}
	}
}

// write writes what has changed, until it is stored or refused for good.
func (w *writer) write() error {
	for {
		if err := w.latest.flush(w.t.Context(), w.fold); err != nil {
			return err
		}
		if len(w.latest.sent) == 0 && !w.fold.HasChanged() {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}

// has is the position of what the bucket has of stream s.
func (w *writer) has() uint64 { return w.hasOf("s") }

func (w *writer) hasOf(stream string) uint64 {
	w.t.Helper()
	kv, err := w.book.js.KeyValue(w.t.Context(), wire.LatestBucket("job"))
	if err != nil {
		w.t.Fatal(err)
	}
	entry, err := kv.Get(w.t.Context(), stream)
	if err != nil {
		w.t.Fatal(err)
	}
	var l alarm.Latest
	if err := json.Unmarshal(entry.Value(), &l); err != nil {
		w.t.Fatal(err)
	}
	return l.Position
}

// What a process knows that has lost the alarms does not replace what the next one has
// written, whether it was sent before or is sent again. The next one goes on behind it.
func TestLatestOfOneWriter(t *testing.T) {
	s, js := ensured(t)
	first := newWriter(t, s, "first")
	first.judge(1)
	if err := first.write(); err != nil || first.has() != 1 {
		t.Fatalf("the bucket has position %d, %v", first.has(), err)
	}
	first.judge(2) // it stands still before it writes this
	second := newWriter(t, s, "second")
	second.judge(3)
	if err := second.write(); err != nil || second.has() != 3 {
		t.Fatalf("after the second process the bucket has position %d, %v", second.has(), err)
	}
	if err := first.write(); !errors.Is(err, ErrFenced) || second.has() != 3 {
		t.Errorf("the first process goes on: the bucket has position %d, %v", second.has(), err)
	}
	second.judge(4)
	if err := second.write(); err != nil || second.has() != 4 {
		t.Errorf("then the bucket has position %d, %v", second.has(), err)
	}
	if keys, err := keysOf(t, js); err != nil || len(keys) != 1 {
		t.Errorf("the bucket has the keys %v, %v", keys, err)
	}
}

// What somebody else stores in the bucket is found when the next ones are written: all streams
// are written again.
func TestLatestOfSomebodyElse(t *testing.T) {
	s, js := ensured(t)
	w := newWriter(t, s, "first")
	streams := []string{"r", "s", "t"}
	check := func(position uint64) {
		t.Helper()
		w.judge(position, streams...)
		if err := w.write(); err != nil {
			t.Fatal(err)
		}
		for _, name := range streams {
			if got := w.hasOf(name); got != position {
				t.Errorf("the bucket has position %d of %s, want %d", got, name, position)
			}
		}
		if len(w.latest.sent) > 0 || w.latest.written.Position != position {
			t.Errorf("%d streams wait, written is %+v", len(w.latest.sent), w.latest.written)
		}
	}
	check(1)
	kv, err := js.KeyValue(t.Context(), wire.LatestBucket("job"))
	if err == nil {
		err = kv.Delete(t.Context(), "s")
	}
	if err != nil {
		t.Fatal(err)
	}
	streams = streams[:1]
	check(2)
	streams = streams[:3]
	for name, want := range map[string]uint64{"s": 1, "t": 1} {
		if got := w.hasOf(name); got != want {
			t.Errorf("the bucket has position %d of %s, want %d", got, name, want)
		}
	}
	if keys, err := keysOf(t, js); err != nil || len(keys) != len(streams) {
		t.Errorf("the bucket has the keys %v, %v", keys, err)
	}
	check(3)
}

func keysOf(t *testing.T, js jetstream.JetStream) ([]string, error) {
	kv, err := js.KeyValue(t.Context(), wire.LatestBucket("job"))
	if err != nil {
		return nil, err
	}
	return kv.Keys(t.Context())
}
