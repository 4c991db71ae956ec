//go:build unix

package main

import (
	"path/filepath"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// A gateway whose clients could exhaust the open files of its outbox refuses to start,
// before it connects to a server.
func TestGatewayChecksFiles(t *testing.T) {
	archive, dir := clitest.ImportTiny(t, 1), t.TempDir()
	model := filepath.Join(dir, "m")
	clitest.Must(t, "train", archive, "--output", model, "--members", "1", "--units", "5")
	args := []string{"gateway", "--model", model, "--nats-url", "nats://127.0.0.1:1", "--outbox", filepath.Join(dir, "outbox"), "--http-listen", "127.0.0.1:0", "--tcp-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"}
	c := startChild(t, "ulimit -n 600; ", "try: ulimit -n 65536", args...)
	if err := c.Wait(); err == nil || c.ProcessState.ExitCode() != 1 {
		t.Errorf("it ends with %v, want exit code 1:\n%s", err, c.hasPrinted())
	}
	startChild(t, "ulimit -n 1024; ", "waiting for the NATS server", args...) // with fewer connections
}
