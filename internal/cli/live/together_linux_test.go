package live_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// The disk of the outbox fills while the process runs. Devices get no acknowledgement, the status
// names the outbox and the stage continues. With free space everything continues without a
// restart, and each prediction is there once.
func TestRunWithAFullOutboxDisk(t *testing.T) {
	t.Parallel()
	file, port, mqtt := plantFile(t, "")
	url, disk := "nats://127.0.0.1:"+port, filepath.Join(filepath.Dir(file), "outbox")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
		parts.Absent(t, "diskfull", "a full disk needs the right to mount one: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	p := startProcess(t, "run", "-c", file)
	p.await(t, "alarm rules of job eusn: 1")
	send(t, mqtt, "pump1", 0, 20)
	p.await(t, "alarm raised")

	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, make([]byte, 2<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for n := 20; n < 420 && !t.Failed(); n += 20 { // more than the free part of a page
			send(t, mqtt, "pump1", n, n+20)
		}
	}()
	p.await(t, "holding back: the outbox cannot be written: check its directory (gateway.outbox)")
	status := ""
	for end := time.Now().Add(pipelinetest.Patience); !strings.Contains(status, "its outbox cannot be written"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("status:\n%s", status)
		}
		r := clitest.Exec(t, t.Context(), "status", "--nats-url", url)
		status = r.Out
	}
	if !strings.Contains(status, "2 reading") || !strings.Contains(status, "first: check the directory gateway.outbox") {
		t.Errorf("status:\n%s", status)
	}
	select {
	case <-sent:
		t.Error("all messages are acknowledged, although the disk is full")
	case <-time.After(500 * time.Millisecond):
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	select {
	case <-sent:
	case <-time.After(pipelinetest.Patience):
		t.Fatal("the devices get no acknowledgements, although the disk has space")
	}
	clitest.Await(t, url, 21, 0)
	if got := answers(t, url, "eusn"); len(got["pump1"]) != 21 || count(got) != 21 {
		t.Errorf("%d predictions of pump1, %d in all; want 21", len(got["pump1"]), count(got))
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
}
