package watch

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
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

// serverWithJob starts a server with a job's output and its alarm streams.
func serverWithJob(t *testing.T) (*natsserver.Server, jetstream.JetStream) {
	t.Helper()
	s := pipelinetest.Server(t, natsserver.Options{})
	_, js := pipelinetest.Connect(t, s)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: wire.OutputStream("job"), Subjects: []string{"job.out.*"}}); err != nil {
		t.Fatal(err)
	}
	if err := EnsureStreams(t.Context(), js, "job", 0); err != nil {
		t.Fatal(err)
	}
	return s, js
}

// writer is a process that writes: with its own connection and its own fold.
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
	known, err := w.book.readRecord(t.Context())
	if err == nil && known {
		err = w.book.claimRecord(t.Context())
	} else if err == nil {
		err = w.book.saveState(t.Context(), w.fold, nil, time.Unix(1, 0))
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// judgeUpTo judges messages up to a number, each with a prediction of each stream; the default
// stream is s.
func (w *writer) judgeUpTo(last uint64, streams ...string) {
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
		if _, err := w.fold.JudgeMessage(&m); err != nil {
			w.t.Fatal(err)
		}
	}
}

// writeUntilStored writes the changed streams until they are stored or permanently refused.
func (w *writer) writeUntilStored() error {
	for {
		if err := w.latest.writeChanged(w.t.Context(), w.fold); err != nil {
			return err
		}
		if len(w.latest.sent) == 0 && !w.fold.HasChanges() {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}

// storedPosition returns the bucket's position of stream s.
func (w *writer) storedPosition() uint64 { return w.storedPositionOf("s") }

func (w *writer) storedPositionOf(stream string) uint64 {
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

// TestLatestOfOneWriter: a process that lost the alarms does not replace its successor's data,
// neither with earlier nor with resent messages. The successor continues after them.
func TestLatestOfOneWriter(t *testing.T) {
	s, js := serverWithJob(t)
	first := newWriter(t, s, "first")
	first.judgeUpTo(1)
	if err := first.writeUntilStored(); err != nil || first.storedPosition() != 1 {
		t.Fatalf("the bucket has position %d, %v", first.storedPosition(), err)
	}
	first.judgeUpTo(2) // it pauses before it writes this message
	second := newWriter(t, s, "second")
	second.judgeUpTo(3)
	if err := second.writeUntilStored(); err != nil || second.storedPosition() != 3 {
		t.Fatalf("after the second process the bucket has position %d, %v", second.storedPosition(), err)
	}
	if err := first.writeUntilStored(); !errors.Is(err, ErrFenced) || second.storedPosition() != 3 {
		t.Errorf("the first process goes on: the bucket has position %d, %v", second.storedPosition(), err)
	}
	second.judgeUpTo(4)
	if err := second.writeUntilStored(); err != nil || second.storedPosition() != 4 {
		t.Errorf("then the bucket has position %d, %v", second.storedPosition(), err)
	}
	if keys, err := keysOf(t, js); err != nil || len(keys) != 1 {
		t.Errorf("the bucket has the keys %v, %v", keys, err)
	}
}

// TestLatestWithForeignMessage: a foreign message in the bucket is detected at the next write: all
// streams are rewritten.
func TestLatestWithForeignMessage(t *testing.T) {
	s, js := serverWithJob(t)
	w := newWriter(t, s, "first")
	streams := []string{"r", "s", "t"}
	check := func(position uint64) {
		t.Helper()
		w.judgeUpTo(position, streams...)
		if err := w.writeUntilStored(); err != nil {
			t.Fatal(err)
		}
		for _, name := range streams {
			if got := w.storedPositionOf(name); got != position {
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
		if got := w.storedPositionOf(name); got != want {
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

// countedConsumers counts the requests for consumers.
type countedConsumers struct {
	jetstream.JetStream
	asked atomic.Int64
}

func (c *countedConsumers) OrderedConsumer(ctx context.Context, stream string, o jetstream.OrderedConsumerConfig) (jetstream.Consumer, error) {
	c.asked.Add(1)
	return c.JetStream.OrderedConsumer(ctx, stream, o)
}

// TestDisconnected expects one attempt to keep the alarms, and one to read the output, until the
// connection returns.
func TestDisconnected(t *testing.T) {
	s := pipelinetest.Server(t, natsserver.Options{})
	nc, js := pipelinetest.Connect(t, s)
	s.Close()
	pipelinetest.Until(t, "loss of the connection", func() bool { return !nc.IsConnected() })
	ctx, stop := context.WithCancel(t.Context())
	book, ended := &pipelinetest.LogBook{}, make(chan error)
	log := slog.New(slog.NewTextHandler(book, &slog.HandlerOptions{Level: slog.LevelDebug}))
	go func() { ended <- Run(ctx, nc, Options{Job: "job", Log: log}) }()
	counted := &countedConsumers{JetStream: js}
	r := readOutput(ctx, counted, store.Follow(nc), "job", 1, log)
	time.Sleep(10 * shortRetry)
	stop()
	r.stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n, m := book.Lines("restarting on the next connection"), counted.asked.Load(); n != 1 || m != 1 {
		t.Errorf("without a connection the process started %d times and read the output %d times, want 1", n, m)
	}
}
