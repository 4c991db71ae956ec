package store

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// An outdated answer shows fewer messages than already known. The NATS stream has lost
// nothing, and no loss is reported.
func TestOvertakenAnswerIsNoLoss(t *testing.T) {
	t.Parallel()
	srv := pipelinetest.Server(t, natsserver.Options{Dir: t.TempDir(), Port: natsserver.RandomPort})
	t.Cleanup(srv.Close)
	nc, js := pipelinetest.Connect(t, srv)
	const job = "over"
	name := wire.DeadLetterStream(job)
	for _, stream := range []string{name, wire.RowStream(job), wire.SnapshotStream(job), wire.MemberStream(job)} {
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{"test." + stream}}); err != nil {
			t.Fatal(err)
		}
	}
	var text bytes.Buffer
	b, err := OpenAuxiliary(t.Context(), js, Follow(nc), job, nil, false, func() uint64 { return 0 }, slog.New(slog.NewTextHandler(&text, nil)))
	if err != nil {
		t.Fatal(err)
	}
	b.Mu.Lock()
	looked := make(chan bool)
	go func() { looked <- b.CheckStream(t.Context(), name) }()
	time.Sleep(300 * time.Millisecond) // the answer has arrived and waits for the lock
	if _, err := js.Publish(t.Context(), "test."+name, nil); err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	b.Known[name] = s.CachedInfo()
	b.Mu.Unlock()
	if <-looked || strings.Contains(text.String(), "lost all its messages") || b.Known[name].State.LastSeq != 1 {
		t.Errorf("after an overtaken answer, message %d is known as the last one:\n%s", b.Known[name].State.LastSeq, text.String())
	}
}
