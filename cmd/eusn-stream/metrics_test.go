package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/gpu/telemetry"
)

func TestRunMetrics(t *testing.T) {
	saved := telemetry.Library
	telemetry.Library = "/nonexistent/libnvidia-ml.so.1"
	defer func() { telemetry.Library = saved }()
	archive, dir := importTiny(t, 2), t.TempDir()
	model := filepath.Join(dir, "m.safetensors")
	must(t, "offline", "retrain", "--archive", archive, "--out", model, "--members", "2", "--units", "8")
	args := func(addr string, more ...string) []string {
		return append([]string{"run", "--model", model, "--dir", filepath.Join(dir, "data"), "--port", "0", "--partitions", "2", "--metrics", addr}, more...)
	}
	stage := startProgram(t, "reading sensors.*", args("127.0.0.1:0")...)
	base := regexp.MustCompile(`metrics at (http://127\.0\.0\.1:\d+)/metrics`).FindStringSubmatch(stage.messages())
	if base == nil {
		t.Fatalf("no address is told:\n%s", stage.messages())
	}
	get := func(path string) (int, string) {
		t.Helper()
		res, err := http.Get(base[1] + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}
	for range 200 {
		if code, _ := get("/readyz"); code == 200 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if code, body := get("/readyz"); code != 200 || body != "ready: 2 partitions\n" {
		t.Errorf("/readyz: %d %q", code, body)
	}
	code, page := get("/metrics")
	if code != 200 || !strings.Contains(page, "\neusn_ready 1\n") || !strings.Contains(page, fmt.Sprintf(`version="%s"`, readBuildInfo().Version)) || !strings.Contains(page, "\ngo_goroutines ") || strings.Contains(page, "eusn_gpu") {
		t.Errorf("/metrics: %d\n%s", code, page)
	}

	addr := strings.TrimPrefix(base[1], "http://")
	exec(t, t.Context(), args(addr, "--dir", filepath.Join(dir, "other"))...).want(t, exitUnreachable, "metrics: listen tcp "+addr, "address already in use", "try: --metrics")
	if _, err := os.Stat(filepath.Join(dir, "other")); err == nil {
		t.Error("a stage whose address is taken began to work")
	}

	r := stage.stop(t)
	r.want(t, exitOK, "stopped: 0 messages")
	if n := strings.Count(r.errOut, "no GPU metrics"); n != 1 {
		t.Errorf("the missing driver is told %d times, want once:\n%s", n, r.errOut)
	}
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Error("somebody listens there after the stage's end")
	}
}

func TestMetricsAddress(t *testing.T) {
	for _, addr := range []string{"9464", "localhost", "localhost:http", "localhost:70000", "a:b:1", "http://localhost:9464"} {
		exec(t, t.Context(), "run", "--metrics", addr).want(t, exitConfig, fmt.Sprintf("config: --metrics: key metrics.listen: %q, want host:port", addr))
	}
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("job: a\nmetrics:\n  listen: here\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	exec(t, t.Context(), "config", "check", file).want(t, exitConfig, file+`:3: key metrics.listen: "here", want host:port`)
	for _, addr := range []string{"127.0.0.1:9464", ":9464", "[::1]:0", "example.org:80"} {
		if !isAddress(addr) {
			t.Errorf("%s is refused", addr)
		}
	}
}

// The end does not wait for a driver that hangs.
func TestInTime(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	if err := inTime(func() error { <-hang; return nil }, time.Millisecond); err == nil || err.Error() != "no answer within 1ms" {
		t.Errorf("a call that hangs: %v", err)
	}
	want := errors.New("no")
	if err := inTime(func() error { return want }, time.Hour); err != want {
		t.Errorf("a call that fails: %v", err)
	}
}
