package live_test

import (
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

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/telemetry"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

func TestRunMetrics(t *testing.T) { // not parallel: every stage reads telemetry.Library
	saved := telemetry.Library
	telemetry.Library = "/nonexistent/libnvidia-ml.so.1"
	defer func() { telemetry.Library = saved }()
	archive, dir := clitest.ImportTiny(t, 2), t.TempDir()
	model := filepath.Join(dir, "m.safetensors")
	clitest.Must(t, "train", archive, "--output", model, "--members", "2", "--units", "8")
	args := func(addr string, more ...string) []string {
		return append([]string{"run", "--model", model, "--dir", filepath.Join(dir, "data"), "--port", "0", "--partitions", "2", "--metrics-listen", addr}, more...)
	}
	stage := clitest.Start(t, "reading sensors.*", args("127.0.0.1:0")...)
	base := regexp.MustCompile(`metrics at (http://127\.0\.0\.1:\d+)/metrics`).FindStringSubmatch(stage.Messages())
	if base == nil {
		t.Fatalf("no address is told:\n%s", stage.Messages())
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
	if code != 200 || !strings.Contains(page, "\neusn_ready 1\n") || !strings.Contains(page, fmt.Sprintf(`version="%s"`, cli.ReadBuildInfo().Version)) || !strings.Contains(page, "\ngo_goroutines ") || strings.Contains(page, "eusn_gpu") {
		t.Errorf("/metrics: %d\n%s", code, page)
	}

	addr := strings.TrimPrefix(base[1], "http://")
	clitest.Exec(t, t.Context(), args(addr, "--dir", filepath.Join(dir, "other"))...).Want(t, cli.ExitUnreachable, "eusn-stream: cannot listen on "+addr, "address already in use", "try: --metrics-listen")
	if _, err := os.Stat(filepath.Join(dir, "other")); err == nil {
		t.Error("a stage whose address is taken began to work")
	}

	r := stage.Stop(t)
	r.Want(t, cli.ExitOK, "stopped: 0 messages")
	if n := strings.Count(r.ErrOut, "GPU metrics are not available"); n != 1 {
		t.Errorf("the missing driver is told %d times, want once:\n%s", n, r.ErrOut)
	}
	if conn, err := net.Dial("tcp", addr); err == nil {
		conn.Close()
		t.Error("somebody listens there after the stage's end")
	}
}

// By default the page is at a port of this machine; another process with this port does not
// prevent the start.
func TestDefaultPage(t *testing.T) {
	archive, dir := clitest.ImportTiny(t, 1), t.TempDir()
	model := filepath.Join(dir, "m")
	clitest.Must(t, "train", archive, "--members", "1", "--units", "5", "--output", model)
	run := func(data string, args ...string) string {
		args = append([]string{"run", "--model", model, "--dir", filepath.Join(dir, data), "--port", "0", "--partitions", "1"}, args...)
		stage := clitest.Start(t, "reading sensors.*", args...)
		stage.Stop(t).Want(t, cli.ExitOK, "")
		return stage.Messages()
	}
	const page, taken = "a live page at http://127.0.0.1:9464/\n", "no live page and no metrics: the default address is not free"
	for end := time.Now().Add(pipelinetest.Patience); !strings.Contains(run("a"), page); { // a test of another package may have the port
		if time.Now().After(end) {
			t.Fatal("no stage had the live page")
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:9464")
	if err == nil {
		defer l.Close()
	}
	if said := run("b"); !strings.Contains(said, taken) || strings.Contains(said, page) {
		t.Errorf("a stage without the port reports\n%s", said)
	}
	if said := run("c", "--metrics-listen", "127.0.0.1:9464"); !strings.Contains(said, taken) { // as in a file of stage and gateway
		t.Errorf("a stage with the default address as a setting, without the port, reports\n%s", said)
	}
}

func TestMetricsAddress(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"9464", "localhost", "localhost:http", "localhost:70000", "a:b:1", "http://localhost:9464"} {
		clitest.Exec(t, t.Context(), "run", "--metrics-listen", addr).Want(t, cli.ExitConfig, "eusn-stream: --metrics-listen: key metrics.listen: want host:port or :port", "got ")
	}
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("job: a\nmetrics:\n  listen: here\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	clitest.Exec(t, t.Context(), "config", "check", file).Want(t, cli.ExitConfig, file+":3: key metrics.listen: want host:port or :port", `got "here"`)
	for _, addr := range []string{"127.0.0.1:9464", ":9464", "[::1]:0", "example.org:80"} {
		clitest.Must(t, "config", "check", clitest.Write(t, file, fmt.Sprintf("metrics:\n  listen: %q\n  insecure: true\n", addr)))
	}
}
