package pipeline_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// A server interrupted between the two files of a NATS stream's configuration omits the
// stream at its start. The embedded server recovers the stream, with the old creation
// time, and the job continues.
func TestLostChecksumIsRepaired(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	p := newPast(t)
	b := p.newRig()
	c := quickConfig("sum", 1)
	b.answerPackets(m, c, endedSequences("a", 3, 1), 3)
	in, err := b.js.Stream(t.Context(), wire.InputStream(c.Job))
	if err != nil {
		t.Fatal(err)
	}
	created := in.CachedInfo().Created
	if _, err := in.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "kept"}); err != nil {
		t.Fatal(err)
	}
	p.srv.Close()
	input, output := p.streamFolder(wire.InputStream(c.Job)), p.streamFolder(wire.OutputStream(c.Job))
	durable := filepath.Join(input, "obs", "kept")
	before := map[string][]byte{}
	for _, dir := range []string{input, output, durable} {
		if before[dir], err = os.ReadFile(filepath.Join(dir, server.JetStreamMetaFileSum)); err != nil {
			t.Fatal(err)
		}
	}
	later := time.Now().Add(time.Minute)
	for _, err := range []error{
		os.Remove(filepath.Join(input, server.JetStreamMetaFileSum)),
		os.WriteFile(filepath.Join(durable, server.JetStreamMetaFileSum), nil, 0o640),
		os.WriteFile(filepath.Join(output, server.JetStreamMetaFileSum), []byte("0123456789abcdef"), 0o640), // of the configuration before
		os.Chtimes(filepath.Join(output, server.JetStreamMetaFile), later, later),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	p.startServer(p.port)
	for dir, sum := range before {
		if got, err := os.ReadFile(filepath.Join(dir, server.JetStreamMetaFileSum)); err != nil || !slices.Equal(got, sum) {
			t.Errorf("%s: checksum %q, %v, want %q", dir, got, err, sum)
		}
	}
	b = p.newRig()
	in, err = b.js.Stream(t.Context(), wire.InputStream(c.Job))
	if err != nil || !in.CachedInfo().Created.Equal(created) {
		t.Fatalf("the input was created %v, want %v: %v", in.CachedInfo().Created, created, err)
	}
	if _, err := in.Consumer(t.Context(), "kept"); err != nil {
		t.Errorf("the durable consumer: %v", err)
	}
	b.expireMembers(c.Job)
	r := b.startStage(m, c)
	b.publishPackets(endedSequences("a", 2, 2))
	if got := b.awaitPredictions(c.Job, 5)["a"]; len(got) != 5 {
		t.Errorf("%d predictions, want 5", len(got))
	}
	r.stopStage(t)
}

// A job with an output younger than the job's other NATS streams has lost the output,
// or is new on an old input: this is reported until the job has begun.
func TestYoungOutputIsTold(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	p := newPast(t)
	b := p.newRig()
	c := quickConfig("young", 1)
	if err := store.EnsureStreams(t.Context(), b.js, c.WithDefaults().Layout(), b.log); err != nil {
		t.Fatal(err)
	}
	b.publishPackets(endedSequences("a", 2, 1))
	in, err := b.js.Stream(t.Context(), wire.InputStream(c.Job))
	if err != nil {
		t.Fatal(err)
	}
	created := in.CachedInfo().Created
	p.srv.Close()
	inf := filepath.Join(p.streamFolder(wire.InputStream(c.Job)), server.JetStreamMetaFile)
	text, err := os.ReadFile(inf)
	if err != nil {
		t.Fatal(err)
	}
	aged := strings.Replace(string(text), created.Format(time.RFC3339Nano), created.Add(-time.Hour).Format(time.RFC3339Nano), 1)
	if aged == string(text) {
		t.Fatalf("no time of creation %v in %s", created, text)
	}
	for _, err := range []error{
		os.WriteFile(inf, []byte(aged), 0o600), os.Remove(filepath.Join(filepath.Dir(inf), server.JetStreamMetaFileSum)),
		os.RemoveAll(p.streamFolder(wire.OutputStream(c.Job))),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	p.startServer(p.port)
	const told = "the output is new and empty, but other NATS streams of the job are older"
	for i, want := range []int{1, 0} {
		b = p.newRig()
		book := &pipelinetest.LogBook{}
		b.log = book.Logger()
		r := b.startStage(m, c)
		b.awaitPredictions(c.Job, 2)
		r.stopStage(t)
		if n := book.Lines(told); n != want || n > 0 && book.Lines("YOUNG-IN (2 messages)") != 1 {
			t.Errorf("start %d: told %d times, want %d", i, n, want)
		}
	}
}
