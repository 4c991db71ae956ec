package main

import (
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// manager is the socket of a service manager.
type manager struct{ *net.UnixConn }

// awaitMessage waits for a message that begins with the given text.
func (m manager) awaitMessage(t *testing.T, beginning string) string {
	t.Helper()
	if err := m.SetReadDeadline(time.Now().Add(pipelinetest.Patience)); err != nil {
		t.Fatal(err)
	}
	for b := make([]byte, 4096); ; {
		n, err := m.Read(b)
		if err != nil {
			t.Fatalf("no %s was said: %v", beginning, err)
		}
		if got := string(b[:n]); strings.HasPrefix(got, beginning) {
			return got
		}
	}
}

// The commands of the units in configs/systemd, started as by systemd, report that they
// are ready, alive and stopping, and end as the units expect.
func TestServices(t *testing.T) {
	for _, stage := range []string{"eusn-stream", "eusn-stream-edge"} {
		t.Run(stage, func(t *testing.T) { startServices(t, stage) })
	}
}

// startServices starts the services of a machine: a stage, with its server, and the
// processes next to the stage.
func startServices(t *testing.T, stage string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	dir := t.TempDir()
	model := filepath.Join(dir, "m")
	clitest.Must(t, "train", clitest.ImportTiny(t, 1), "--output", model, "--members", "1", "--units", "5")
	clitest.Write(t, filepath.Join(dir, "stage.yaml"), fmt.Sprintf("model: %s\nserver:\n  port: %s\n", model, port))
	clitest.Write(t, filepath.Join(dir, "edge.yaml"), fmt.Sprintf("model: %s\nserver:\n  port: %s\n  hub: nats://127.0.0.1:1\n", model, port)) // an unreachable center
	clitest.Write(t, filepath.Join(dir, "gateway.yaml"), fmt.Sprintf("model: %s\nnats:\n  url: nats://127.0.0.1:%s\ngateway:\n  mqtt: 127.0.0.1:0\n", model, port))
	clitest.Write(t, filepath.Join(dir, "alarms.yaml"), fmt.Sprintf("nats:\n  url: nats://127.0.0.1:%s\nalarms:\n  rules:\n    dead: silent 10m\n", port))
	at := strings.NewReplacer("/etc/eusn-stream", dir, "/var/lib/eusn-stream-gateway", dir, "/var/lib/eusn-stream-edge", dir, "/var/lib/eusn-stream", dir)
	var stop []func()
	for _, s := range []struct{ unit, says string }{{stage, "reading sensors.*"}, {"eusn-stream-gateway", "publishing to sensors.*"}, {"eusn-stream-alarms", "alarm rules of job eusn: 1"}} {
		text := string(clitest.Read(t, "../../configs/systemd/"+s.unit+".service"))
		start := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/eusn-stream (.*)$`).FindStringSubmatch(text)
		if start == nil {
			t.Fatalf("%s starts no program", s.unit)
		}
		socket := filepath.Join(dir, s.unit+".notify")
		c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		m := manager{c}
		p := startChild(t, "export WATCHDOG_USEC=300000 NOTIFY_SOCKET='"+socket+"'; ", s.says, strings.Fields(at.Replace(start[1]))...)
		if got := m.awaitMessage(t, "READY=1"); !strings.Contains(got, "\nSTATUS=") {
			t.Errorf("%s is ready without a status: %q", s.unit, got)
		}
		m.awaitMessage(t, "WATCHDOG=1")
		stop = append(stop, func() {
			if err := p.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			m.awaitMessage(t, "STOPPING=1")
			if err := p.Wait(); err != nil && !strings.Contains(text, fmt.Sprintf("\nSuccessExitStatus=%d\n", p.ProcessState.ExitCode())) {
				t.Errorf("%s ended with %v:\n%s", s.unit, err, p.hasPrinted())
			}
		})
	}
	for _, end := range slices.Backward(stop) { // the stage last: it contains the server
		end()
	}
}
