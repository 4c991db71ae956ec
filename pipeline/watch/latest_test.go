package watch

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline/alarm"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
	"github.com/eusn-stream/eusn-stream/pipeline/natsserver"
)

// writer is what a process writes with: its own connection, its own fold.
type writer struct {
	t      *testing.T
	book   *book
	latest *latest
	fold   *alarm.Fold
}

func newWriter(t *testing.T, s *natsserver.Server, name string) *writer {
	t.Helper()
	nc, js := pipelinetest.Connect(t, s)
	w := &writer{t: t, fold: alarm.NewFold("log", 0)}
	var err error
	if w.book, err = openBook(t.Context(), js, store.Follow(nc), "job", name, pipelinetest.Log(t)); err != nil {
		t.Fatal(err)
	}
	if w.latest, err = newLatest(nc, w.book); err != nil {
		t.Fatal(err)
	}
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

// judge takes the messages up to one, each a prediction of stream s.
func (w *writer) judge(last uint64) {
	w.t.Helper()
	for seq := w.fold.Position() + 1; seq <= last; seq++ {
		m := alarm.Message{Seq: seq, Outs: seq, Stored: time.Unix(int64(seq), 0), Labels: []string{"ok"}, Predictions: []codec.Prediction{{Stream: "s", Time: codec.NoTime}}}
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
func (w *writer) has() uint64 {
	w.t.Helper()
	kv, err := w.book.js.KeyValue(w.t.Context(), wire.LatestBucket("job"))
	if err != nil {
		w.t.Fatal(err)
	}
	entry, err := kv.Get(w.t.Context(), "s")
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
	s := pipelinetest.Server(t, natsserver.Options{})
	_, js := pipelinetest.Connect(t, s)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: wire.OutputStream("job"), Subjects: []string{"job.out.*"}}); err != nil {
		t.Fatal(err)
	}
	if err := Ensure(t.Context(), js, "job", 0); err != nil {
		t.Fatal(err)
	}
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

func keysOf(t *testing.T, js jetstream.JetStream) ([]string, error) {
	kv, err := js.KeyValue(t.Context(), wire.LatestBucket("job"))
	if err != nil {
		return nil, err
	}
	return kv.Keys(t.Context())
}
