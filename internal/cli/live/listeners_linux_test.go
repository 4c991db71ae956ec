package live_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/metrics"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/internal/testing/planttest"
)

// socketsOf returns the addresses on which a process listens, "tcp 127.0.0.1:4222" or
// "udp ...", as listed by the kernel.
func socketsOf(t *testing.T, pid int) (all []string) {
	t.Helper()
	own := map[string]bool{} // inodes
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		to, _ := os.Readlink(f) // a file may be closed meanwhile
		if inode, ok := strings.CutPrefix(to, "socket:["); ok {
			own[strings.TrimSuffix(inode, "]")] = true
		}
	}
	for _, table := range []struct{ name, kind, state string }{{"tcp", "tcp", "0A"}, {"tcp6", "tcp", "0A"}, {"udp", "udp", "07"}, {"udp6", "udp", "07"}} {
		for line := range strings.Lines(string(clitest.Read(t, fmt.Sprintf("/proc/%d/net/%s", pid, table.name)))) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != table.state || !own[f[9]] {
				continue
			}
			host, port, _ := strings.Cut(f[1], ":")
			n, err := strconv.ParseUint(port, 16, 16)
			if err != nil {
				t.Fatal(err)
			}
			if host == "0100007F" {
				host = "127.0.0.1"
			}
			all = append(all, fmt.Sprintf("%s %s:%d", table.kind, host, n))
		}
	}
	slices.Sort(all)
	return all
}

// program starts the program as a process and waits for a message.
func program(t *testing.T, says string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := planttest.Command(args...)
	cmd.Env = append(cmd.Env, env...)
	log := filepath.Join(t.TempDir(), "log")
	f, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd.Stderr = f
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for end := time.Now().Add(pipelinetest.Patience); !strings.Contains(string(clitest.Read(t, log)), says); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%v does not say %q:\n%s", args, says, clitest.Read(t, log))
		}
	}
	return cmd
}

// The table of listeners in docs/secure.md names every key that opens a listener: a
// process listens at the documented address, with only the keys of the table, and
// nowhere else. By default only the embedded server listens.
func TestListeners(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(string(clitest.Read(t, "../../../docs/secure.md")), "\n## Listeners and their limits\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var keys []string
	for line := range strings.Lines(table) {
		if first, _, ok := strings.Cut(strings.TrimPrefix(line, "|"), "|"); ok && strings.HasPrefix(line, "| `") {
			for _, m := range regexp.MustCompile("`([a-z.]+)`").FindAllStringSubmatch(first, -1) {
				keys = append(keys, m[1])
			}
		}
	}
	slices.Sort(keys)
	if want := []string{"gateway.http", "gateway.mqtt", "gateway.tcp", "gateway.udp", "metrics.listen", "server.listen", "server.port", "server.websocket"}; !slices.Equal(keys, want) {
		t.Fatalf("docs/secure.md lists %q, the test opens %q", keys, want)
	}
	if row := fmt.Sprintf("with `metrics.insecure` | %d |", metrics.Connections); !strings.Contains(table, row) {
		t.Errorf("docs/secure.md does not say %q", row)
	}

	archive, dir := clitest.ImportTiny(t, 2), t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	clitest.Must(t, "train", archive, "--output", in("m"), "--members", "1", "--units", "8")
	clitest.Must(t, "secure", "init", in("secure.yaml"))
	port := map[string]string{}
	for _, key := range append(keys, "metrics of the gateway") {
		port[key] = planttest.FreePort(t)
	}
	at := func(kind, key string) string { return kind + " 127.0.0.1:" + port[key] }
	same := func(what string, cmd *exec.Cmd, want ...string) {
		t.Helper()
		slices.Sort(want)
		if got := socketsOf(t, cmd.Process.Pid); !slices.Equal(got, want) {
			t.Errorf("%s listens on\n%q, want\n%q", what, got, want)
		}
	}
	plain := program(t, "reading sensors.*", nil, "run", "--model", in("m"), "--dir", in("plain"), "--port", port["server.listen"])
	byDefault := slices.DeleteFunc(socketsOf(t, plain.Process.Pid), func(s string) bool { return s == "tcp 127.0.0.1:9464" }) // unless another process has it
	if want := []string{at("tcp", "server.listen")}; !slices.Equal(byDefault, want) {
		t.Errorf("run by default listens on %q and the live page, want %q", byDefault, want)
	}

	secure := clitest.Write(t, in("c.yaml"), fmt.Sprintf("server: {dir: %s, port: %s, websocket: 127.0.0.1:%s, users: %s}\nmetrics: {listen: 127.0.0.1:%s}\n",
		in("data"), port["server.port"], port["server.websocket"], in("eusn-secure/users"), port["metrics.listen"]))
	stage := program(t, "reading sensors.*", nil, "run", "-c", secure, "--model", in("m"))
	same("run with all keys", stage, at("tcp", "server.port"), at("tcp", "server.websocket"), at("tcp", "metrics.listen"))

	url := "nats://127.0.0.1:" + port["server.listen"]
	gateway := program(t, "publishing to", nil, "gateway", "--nats-url", url, "--model", in("m"), "--outbox", in("outbox"), "--metrics-listen", "127.0.0.1:"+port["metrics of the gateway"],
		"--mqtt-listen", "127.0.0.1:"+port["gateway.mqtt"], "--http-listen", "127.0.0.1:"+port["gateway.http"], "--tcp-listen", "127.0.0.1:"+port["gateway.tcp"], "--udp-listen", "127.0.0.1:"+port["gateway.udp"])
	same("gateway with all keys", gateway, at("tcp", "gateway.mqtt"), at("tcp", "gateway.http"), at("tcp", "gateway.tcp"), at("udp", "gateway.udp"), at("tcp", "metrics of the gateway"))

	// The limit of one address, from the table.
	limit := 0
	if m := regexp.MustCompile("with `metrics.insecure` \\| \\d+ \\| (\\d+) \\|").FindStringSubmatch(table); m != nil {
		limit, _ = strconv.Atoi(m[1])
	}
	closed := make(chan int, 2*limit+1)
	for i := range limit + 1 {
		c, err := net.Dial("tcp", "127.0.0.1:"+port["metrics.listen"])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go func() {
			if _, err := c.Read(make([]byte, 1)); err != nil {
				closed <- i
			}
		}()
	}
	select {
	case i := <-closed:
		if i != limit { // after two seconds without a header, the other connections end, too
			t.Errorf("of %d connections to the metrics from one address, number %d ended first, want the last", limit+1, i+1)
		}
	case <-time.After(pipelinetest.Patience):
		t.Errorf("%d connections to the metrics from one address stay", limit+1)
	}
}
