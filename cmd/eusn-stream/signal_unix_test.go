//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	osexec "os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// childArgs holds, as JSON, the arguments of a test's child process.
const childArgs = "EUSN_TEST_CHILD_ARGS"

// TestChild is only for child processes, in which it runs the program, with its signals
// and its exit.
func TestChild(t *testing.T) {
	text := os.Getenv(childArgs)
	if text == "" {
		return
	}
	var args []string
	if err := json.Unmarshal([]byte(text), &args); err != nil {
		t.Fatal(err)
	}
	os.Args = append([]string{"eusn-stream"}, args...)
	main()
}

// child is the program in a separate process.
type child struct {
	*osexec.Cmd
	mu  sync.Mutex
	err bytes.Buffer
}

func (c *child) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err.Write(p)
}

func (c *child) hasPrinted() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err.String()
}

// startChild runs the program until its messages contain text. before is shell code.
func startChild(t *testing.T, before, text string, args ...string) *child {
	t.Helper()
	list, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	cmd := osexec.Command("/bin/sh", "-c", before+`exec "$0" -test.run='^TestChild$'`, os.Args[0])
	cmd.Env = append(os.Environ(), childArgs+"="+string(list))
	return awaitChild(t, cmd, text)
}

// awaitChild starts a program, and returns when its messages contain text.
func awaitChild(t *testing.T, cmd *osexec.Cmd, text string) *child {
	t.Helper()
	c := &child{Cmd: cmd}
	c.Stdout, c.Stderr = io.Discard, c
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	for end := time.Now().Add(pipelinetest.Patience); !strings.Contains(c.hasPrinted(), text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%v did not say %q:\n%s", cmd.Args, text, c.hasPrinted())
		}
	}
	return c
}

// SIGHUP, as sent by a closed terminal, stops the stage cleanly; a stage started with
// nohup continues.
func TestHangUp(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("NOT CHECKED: SIGHUP is ignored here, as under nohup, and every program started from here ignores it too: run the tests without nohup")
	}
	archive, dir := clitest.ImportTiny(t, 1), t.TempDir()
	model := filepath.Join(dir, "m")
	clitest.Must(t, "train", archive, "--output", model, "--members", "1", "--units", "5")
	args := []string{"run", "--model", model, "--dir", filepath.Join(dir, "data"), "--port", "0", "--partitions", "2"}

	c := startChild(t, "", "reading sensors.*", args...)
	if err := c.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil || !strings.Contains(c.hasPrinted(), "stopped: 0 messages") {
		t.Errorf("SIGHUP ends with %v, want an orderly stop:\n%s", err, c.hasPrinted())
	}

	c = startChild(t, "trap '' HUP; ", "reading sensors.*", args...)
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM} {
		time.Sleep(100 * time.Millisecond) // time for an end by the first signal
		if err := c.Process.Signal(s); err != nil {
			t.Fatalf("signal %v under nohup: %v:\n%s", s, err, c.hasPrinted())
		}
	}
	if err := c.Wait(); err != nil || !strings.Contains(c.hasPrinted(), "stopped: 0 messages") {
		t.Errorf("SIGTERM under nohup ends with %v:\n%s", err, c.hasPrinted())
	}
}
