package pipeline

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// A server that was interrupted between the two files of a NATS stream's
// configuration leaves the stream out at its start. The embedded one finds it
// whole, as old as it was, and the job goes on.
func TestLostChecksumIsRepaired(t *testing.T) {
	t.Parallel()
	m := testModel(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	p := newPast(t)
	b := p.rig()
	c := quick("sum", 1)
	r := b.start(m, c)
	b.publish(sequences("a", 3, 1))
	b.settle(r, 3)
	r.stop(t)
	in, err := b.js.Stream(t.Context(), inputStream(c.Job))
	if err != nil {
		t.Fatal(err)
	}
	created := in.CachedInfo().Created
	if _, err := in.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "kept"}); err != nil {
		t.Fatal(err)
	}
	p.srv.Close()
	input, output := p.stream(inputStream(c.Job)), p.stream(outputStream(c.Job))
	durable := filepath.Join(input, "obs", "kept")
	before := map[string][]byte{}
	for _, dir := range []string{input, output, durable} {
		if before[dir], err = os.ReadFile(filepath.Join(dir, metaSum)); err != nil {
			t.Fatal(err)
		}
	}
	later := time.Now().Add(time.Minute)
	for _, err := range []error{
		os.Remove(filepath.Join(input, metaSum)),
		os.WriteFile(filepath.Join(durable, metaSum), nil, 0o640),
		os.WriteFile(filepath.Join(output, metaSum), []byte("0123456789abcdef"), 0o640), // of the configuration before
		os.Chtimes(filepath.Join(output, metaFile), later, later),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	p.start(p.port)
	for dir, sum := range before {
		if got, err := os.ReadFile(filepath.Join(dir, metaSum)); err != nil || !slices.Equal(got, sum) {
			t.Errorf("%s: checksum %q, %v, want %q", dir, got, err, sum)
		}
	}
	b = p.rig()
	in, err = b.js.Stream(t.Context(), inputStream(c.Job))
	if err != nil || !in.CachedInfo().Created.Equal(created) {
		t.Fatalf("the input was created %v, want %v: %v", in.CachedInfo().Created, created, err)
	}
	if _, err := in.Consumer(t.Context(), "kept"); err != nil {
		t.Errorf("the durable consumer: %v", err)
	}
	b.expire(c.Job)
	r = b.start(m, c)
	b.publish(sequences("a", 2, 2))
	if got := b.await(c.Job, 5)["a"]; len(got) != 5 {
		t.Errorf("%d predictions, want 5", len(got))
	}
	r.stop(t)
}

// A job whose output is younger than its other NATS streams has lost it, or is
// new on an old input: that is said, once it has begun no more.
func TestYoungOutputIsTold(t *testing.T) {
	t.Parallel()
	m := testModel(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	p := newPast(t)
	b := p.rig()
	c := quick("young", 1)
	if err := ensureStreams(t.Context(), b.js, c.WithDefaults(), b.log); err != nil {
		t.Fatal(err)
	}
	b.publish(sequences("a", 2, 1))
	in, err := b.js.Stream(t.Context(), inputStream(c.Job))
	if err != nil {
		t.Fatal(err)
	}
	created := in.CachedInfo().Created
	p.srv.Close()
	inf := filepath.Join(p.stream(inputStream(c.Job)), metaFile)
	text, err := os.ReadFile(inf)
	if err != nil {
		t.Fatal(err)
	}
	aged := strings.Replace(string(text), created.Format(time.RFC3339Nano), created.Add(-time.Hour).Format(time.RFC3339Nano), 1)
	if aged == string(text) {
		t.Fatalf("no time of creation %v in %s", created, text)
	}
	for _, err := range []error{
		os.WriteFile(inf, []byte(aged), 0o600), os.Remove(filepath.Join(filepath.Dir(inf), metaSum)),
		os.RemoveAll(p.stream(outputStream(c.Job))),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	p.start(p.port)
	const told = "the output is new and empty, but other NATS streams of the job are older"
	for i, want := range []int{1, 0} {
		b = p.rig()
		book := &logBook{}
		b.log = book.logger()
		r := b.start(m, c)
		b.await(c.Job, 2)
		r.stop(t)
		if n := book.lines(told); n != want || n > 0 && book.lines("YOUNG-IN (2 messages)") != 1 {
			t.Errorf("start %d: told %d times, want %d", i, n, want)
		}
	}
}

// What may be damaged is left to its owner.
func TestChecksumsLeftAlone(t *testing.T) {
	t.Parallel()
	whole := `{"Created":"2026-01-02T03:04:05Z","name":"S"}`
	for name, c := range map[string]struct{ inf, sum, key string }{
		"cut short":              {inf: whole[:20]},
		"empty":                  {inf: " "},
		"of another NATS stream": {inf: `{"Created":"2026-01-02T03:04:05Z","name":"T"}`},
		"without a time":         {inf: `{"name":"S"}`},
		"encrypted":              {inf: whole, key: "k"},
		"changed since":          {inf: whole, sum: "0123456789abcdef"},
	} {
		store := filepath.Join(t.TempDir(), "a[b]*")
		dir := filepath.Join(store, "jetstream", "$G", "streams", "S")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, f := range []struct{ name, text string }{{metaFile, c.inf}, {metaKey, c.key}, {metaSum, c.sum}} {
			if f.text != "" {
				if err := os.WriteFile(filepath.Join(dir, f.name), []byte(f.text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got, err := RepairStore(store); len(got) > 0 || err != nil {
			t.Errorf("%s: repaired %v, %v", name, got, err)
		}
		if got, _ := os.ReadFile(filepath.Join(dir, metaSum)); string(got) != c.sum {
			t.Errorf("%s: the checksum is %q now, was %q", name, got, c.sum)
		}
		if name != "cut short" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, metaFile), []byte(whole), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := RepairStore(store); len(got) != 1 || got[0] != dir || err != nil {
			t.Errorf("a whole one: repaired %v, %v", got, err)
		}
		if got, err := RepairStore(store); len(got) != 0 || err != nil {
			t.Errorf("once more: repaired %v, %v", got, err)
		}
	}
	if got, err := RepairStore(filepath.Join(t.TempDir(), "nothing")); len(got) > 0 || err != nil {
		t.Errorf("no store: %v, %v", got, err)
	}
}

func TestRepairLeavesARunningStoreAlone(t *testing.T) {
	dir := t.TempDir()
	lock, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := RepairStore(dir); err == nil || !strings.Contains(err.Error(), "in use by process") {
		t.Errorf("the store of a running server: %v, want that it is in use", err)
	}
	lock.release()
	if got, err := RepairStore(dir); len(got) > 0 || err != nil {
		t.Errorf("after its end: %q, %v", got, err)
	}
}
