package traces

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/trace"
)

// book is a log that several goroutines write.
type book struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *book) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func start(t *testing.T, o Options) (*Traces, *book) {
	t.Helper()
	b := new(book)
	o.Log = slog.New(slog.NewTextHandler(b, nil))
	o.Rate = max(o.Rate, 1)
	all, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		all.Close(ctx)
	})
	return all, b
}

func record(all *Traces, n int) {
	for range n {
		now := time.Now()
		all.Record(&trace.Span{Name: "x", Context: new(trace.Context).Child(), Begin: now, End: now})
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// A collector that is away holds nobody up: spans beyond the room are dropped and
// counted, and the log says so once.
func TestCollectorIsAway(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and answers nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	all, _ := start(t, Options{Endpoint: "http://" + l.Addr().String()})
	began := time.Now()
	record(all, mostWaiting+1000)
	if took := time.Since(began); took > 20*time.Second { // a request alone takes 10 s, and 4 attempts: this machine may be slow
		t.Errorf("%d spans took %v", mostWaiting+1000, took)
	}
	if s := all.Stats(); s.Dropped != 1000 || s.Sent != 0 {
		t.Errorf("%+v, want 1000 dropped", s)
	}

	l2, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l2.Addr().String()
	l2.Close() // nobody listens
	all, log := start(t, Options{Endpoint: "http://" + addr})
	record(all, 2*atOnce)
	until(t, "spans that are dropped", func() bool { return all.Stats().Dropped == 2*atOnce })
	if n := strings.Count(log.String(), "does not take traces"); n != 1 {
		t.Errorf("the log says it %d times:\n%s", n, log)
	}
}

// Secrets go to the collector, and neither to the log nor to another server.
func TestSecrets(t *testing.T) {
	t.Parallel()
	var elsewhere, came sync.Map
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { elsewhere.Store(r.Header.Get("X-Key"), true) }))
	defer other.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came.Store(r.Header.Get("X-Key"), true)
		http.Redirect(w, r, other.URL+"/hunter2", http.StatusTemporaryRedirect)
	}))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(file, []byte("# the collector's\nX-Key: hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, log := start(t, Options{Endpoint: s.URL, HeadersFile: file})
	record(all, 1)
	until(t, "the span to be dropped", func() bool { return all.Stats().Dropped == 1 })
	if _, ok := came.Load("hunter2"); !ok {
		t.Error("the collector did not get the header")
	}
	if elsewhere.Range(func(any, any) bool { t.Error("another server was asked"); return false }); strings.Contains(log.String(), "hunter2") {
		t.Errorf("the log has the secret:\n%s", log)
	}
	if err := os.WriteFile(file, []byte("hunter2 without a colon\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(Options{Endpoint: s.URL, HeadersFile: file}); err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a file of no headers: %v", err)
	}
	for _, url := range []string{"", "ftp://x", "http://", "http://a:b@c", "http://c?key=1"} {
		if _, err := Start(Options{Endpoint: url}); err == nil {
			t.Errorf("%q is an endpoint", url)
		}
	}
}

// Who decides: the message that says it, and else chance, and never more than the rate.
func TestTakes(t *testing.T) {
	kept, _ := trace.Parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	left := kept
	left.Flags = 0
	none := &Traces{limit: limit{rate: 1e6}}
	every := &Traces{oneIn: 1, limit: limit{rate: 1e6}}
	if !none.Takes(kept) || none.Takes(left) || none.Takes(trace.Context{}) || !every.Takes(kept) || every.Takes(left) || !every.Takes(trace.Context{}) {
		t.Error("a message is not traced as it says")
	}
	some, n := &Traces{oneIn: 100, limit: limit{rate: 1e6}}, 0
	for range 100000 {
		if some.Takes(trace.Context{}) {
			n++
		}
	}
	if n < 700 || n > 1300 { // 1000, and ten standard deviations
		t.Errorf("%d of 100000 messages, want about 1000", n)
	}
	l := limit{rate: 3}
	now := time.Now()
	for i, want := range []bool{true, true, true, false, false} {
		if l.takes(now) != want {
			t.Errorf("message %d of a second: %v", i, !want)
		}
	}
	if !l.takes(now.Add(time.Second)) || l.refused.Load() != 2 {
		t.Errorf("in the next second, after %d", l.refused.Load())
	}
	if n := testing.AllocsPerRun(1000, func() { some.Takes(trace.Context{}) }); n != 0 {
		t.Errorf("%v allocations of a message that is not traced", n)
	}
}
