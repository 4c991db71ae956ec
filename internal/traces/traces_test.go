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

// book is a log for several goroutines.
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

func startTraces(t *testing.T, o Options) (*Traces, *book) {
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

func recordSpans(all *Traces, n int) {
	for range n {
		now := time.Now()
		all.Record(&trace.Span{Name: "x", Context: new(trace.Context).Child(), Begin: now, End: now})
	}
}

func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// TestCollectorIsAway: an unreachable collector delays nothing: spans beyond the queue are dropped
// and counted, and the log reports this once.
func TestCollectorIsAway(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and answers nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	all, _ := startTraces(t, Options{Endpoint: "http://" + l.Addr().String()})
	began := time.Now()
	recordSpans(all, mostWaiting+1000)
	if took := time.Since(began); took > 20*time.Second { // a request takes 10 s, with 4 attempts: this machine may be slow
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
	l2.Close() // no listener
	all, log := startTraces(t, Options{Endpoint: "http://" + addr})
	recordSpans(all, 2*atOnce)
	waitUntil(t, "spans that are dropped", func() bool { return all.Stats().Dropped == 2*atOnce })
	if n := strings.Count(log.String(), "does not accept traces"); n != 1 {
		t.Errorf("the log says it %d times:\n%s", n, log)
	}
}

// TestSecrets: secrets are sent only to the collector, never to the log or another server.
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
	all, log := startTraces(t, Options{Endpoint: s.URL, HeadersFile: file})
	recordSpans(all, 1)
	waitUntil(t, "the span to be dropped", func() bool { return all.Stats().Dropped == 1 })
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

// TestTakes: the message's own decision has priority, then chance, limited by the rate.
func TestTakes(t *testing.T) {
	kept, _ := trace.Parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	left := kept
	left.Flags = 0
	none := &Traces{limit: rateLimit{rate: 1e6}}
	every := &Traces{oneIn: 1, limit: rateLimit{rate: 1e6}}
	if !none.Takes(kept) || none.Takes(left) || none.Takes(trace.Context{}) || !every.Takes(kept) || every.Takes(left) || !every.Takes(trace.Context{}) {
		t.Error("a message is not traced as it says")
	}
	some, n := &Traces{oneIn: 100, limit: rateLimit{rate: 1e6}}, 0
	for range 100000 {
		if some.Takes(trace.Context{}) {
			n++
		}
	}
	if n < 700 || n > 1300 { // 1000, and ten standard deviations
		t.Errorf("%d of 100000 messages, want about 1000", n)
	}
	l := rateLimit{rate: 3}
	now := time.Now()
	for i, want := range []bool{true, true, true, false, false} {
		if l.allowsMessage(now) != want {
			t.Errorf("message %d of a second: %v", i, !want)
		}
	}
	if !l.allowsMessage(now.Add(time.Second)) || l.refused.Load() != 2 {
		t.Errorf("in the next second, after %d", l.refused.Load())
	}
	if n := testing.AllocsPerRun(1000, func() { some.Takes(trace.Context{}) }); n != 0 {
		t.Errorf("%v allocations of a message that is not traced", n)
	}
}
