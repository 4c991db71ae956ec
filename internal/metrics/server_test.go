package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

func TestReadiness(t *testing.T) {
	r := newRig(t)
	var counters pipeline.Counters
	base, server := startServer(t, Options{Counters: &counters})
	want := func(path string, code int, text string) {
		t.Helper()
		if c, body := getPage(t, base+path); c != code || !strings.Contains(body, text) {
			t.Errorf("%s: %d %q, want %d and %q", path, c, body, code, text)
		}
	}
	want("/healthz", 200, "alive")
	want("/readyz", 503, "starting")
	stop := r.startStage(&counters, pipeline.Config{Partitions: 3, Shards: 1})
	waitUntil(t, "readiness", func() bool { code, _ := getPage(t, base+"/readyz"); return code == 200 })
	want("/readyz", 200, "ready: 3 partitions")
	want("/healthz", 200, "alive")
	stop()
	want("/readyz", 503, "ended")
	want("/healthz", 200, "alive")

	if c, _ := getPage(t, base+"/nothing"); c != 404 {
		t.Errorf("an unknown path: %d, want 404", c)
	}
	if res, err := http.Post(base+"/metrics", "text/plain", nil); err != nil || res.StatusCode != 405 {
		t.Errorf("POST: %v, %v, want 405", res, err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if _, err := http.Get(base + "/healthz"); err == nil {
		t.Error("an answer after Close")
	}
}

// TestStoppedPartition: a partition that cannot be restored keeps the stage unready, and the answer
// names the partition.
func TestStoppedPartition(t *testing.T) {
	r := newRig(t)
	var counters pipeline.Counters
	base, _ := startServer(t, Options{Counters: &counters})
	c := pipeline.Config{Partitions: 2, Shards: 1}
	stop := r.startStage(&counters, c)
	r.publishSamples("a", []float32{1})
	waitUntil(t, "an answer", func() bool { return counters.Stats().Messages == 1 })
	stop()
	for _, name := range []string{"OBJ_EUSN-SNAP", "EUSN-IN"} { // removes any source of the state
		store, err := r.js.Stream(context.Background(), name)
		if err == nil {
			err = store.Purge(context.Background())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	s := &pipeline.Worker{
		Job: pipeline.Job{
			Config: c, Model: testModel(t),
			NewEngine: func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
				return cpu.New(net, slots, cpu.Options{Kind: cpu.Generic})
			},
			Dial: func(_ context.Context, name string) (*nats.Conn, error) { return r.server.Connect(name, nil) },
		},
		Counters: &counters,
	}
	go func() { done <- s.Run(ctx) }()
	var code int
	var body string
	waitUntil(t, "a stopped partition, and the other one read", func() bool {
		code, body = getPage(t, base+"/readyz")
		return strings.HasPrefix(body, "partition ") && strings.Count(body, "\n") == 1 && strings.Contains(body, "stopped")
	})
	if code != 503 || !regexp.MustCompile(`^partition [01]: stopped: snapshot \S+ in \S+, .* is lost.*\n$`).MatchString(body) {
		t.Errorf("%d %q, want one line that names the partition and why", code, body)
	}
	_, page := getPage(t, base+"/metrics")
	if n := sample(t, page, `eusn_partitions{phase="stopped"}`); n != 1 {
		t.Errorf("%v partitions stopped, want 1", n)
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("the stage ended without an error")
	}
}

// TestSlowClients: clients that never finish their request, or never read, are disconnected. Other
// clients do not wait for them, nor does Close.
func TestSlowClients(t *testing.T) {
	o := fullOptions(t)
	o.patience = 2 * time.Second // long enough for a normal client on a loaded machine
	base, server := startServer(t, o)
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", server.Addr())
		if err == nil {
			err = conn.SetDeadline(time.Now().Add(patience))
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	cutOff := func(what string, err error) {
		t.Helper()
		var timeout net.Error
		if err == nil || errors.As(err, &timeout) && timeout.Timeout() {
			t.Errorf("%s: %v, want to be cut off", what, err)
		}
	}
	half, deaf := dial(), dial()
	fmt.Fprint(half, "GET /metrics HTTP/1.1\r\nHost: x\r\n")
	var ended sync.WaitGroup
	ended.Go(func() { // sends requests until the server's answers find no room
		var err error
		for err == nil {
			_, err = fmt.Fprint(deaf, strings.Repeat("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 100))
		}
		cutOff("a client that never reads", err)
	})
	for range 20 {
		if code, _ := getPage(t, base+"/metrics"); code != 200 {
			t.Errorf("beside slow clients: %d", code)
		}
	}
	_, err := io.ReadAll(half) // an answer such as 408, or none, and the end
	if err != nil {
		cutOff("a client with half a request", err)
	}
	ended.Wait()

	o.patience = patience // from now on only Close disconnects
	_, server = startServer(t, o)
	deaf = dial()
	var sent atomic.Int64
	ended.Go(func() {
		var err error
		for err == nil {
			_, err = fmt.Fprint(deaf, strings.Repeat("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 100))
			sent.Add(1)
		}
		cutOff("a client that never reads, at the end", err)
	})
	for last := int64(-1); sent.Load() != last; time.Sleep(200 * time.Millisecond) {
		last = sent.Load() // until the server is blocked
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	ended.Wait()
}

// hungUp is a client that cannot be written to.
type hungUp struct {
	http.ResponseWriter
	err error
}

func (h hungUp) Write([]byte) (int, error) { return 0, h.err }

// TestScraperHangsUp: a disconnect of a scraper is no error of this process, because status would
// report it for ten minutes. Other scrape errors are.
func TestScraperHangsUp(t *testing.T) {
	for _, c := range []struct {
		err  error
		logs bool
	}{
		{&net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}, false},
		{errors.New("something else"), true},
	} {
		var said strings.Builder
		o := Options{Counters: new(pipeline.Counters), Log: slog.New(slog.NewTextHandler(&said, nil))}
		newHandler(o, newRegistry(o)).ServeHTTP(hungUp{httptest.NewRecorder(), c.err}, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if logs := strings.Contains(said.String(), "level=ERROR"); logs != c.logs {
			t.Errorf("%v: logged %v, want %v: %s", c.err, logs, c.logs, &said)
		}
	}
}

func TestListenFails(t *testing.T) {
	_, taken := startServer(t, Options{Counters: new(pipeline.Counters)})
	if _, err := Listen(taken.Addr(), Options{Counters: new(pipeline.Counters)}); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("a second listener on %s: %v", taken.Addr(), err)
	}
}
