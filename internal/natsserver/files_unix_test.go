//go:build unix

package natsserver_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// limitFiles sets the limit of open files of this process.
func limitFiles(files uint64) error {
	var r syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r)
	r.Cur = files // of type uint64 or int64, by the system
	return errors.Join(err, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &r))
}

// storeEach stores a message in each of several NATS streams; the server opens their files for
// it.
func storeEach(t *testing.T, js jetstream.JetStream, make bool) error {
	for _, name := range []string{"A", "B", "C", "D"} {
		if make {
			if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name}}); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := js.Publish(ctx, name, nil)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// runCrowded is the second process of these tests: a server in a process with few files, which
// stores messages on request.
func runCrowded(t *testing.T, files uint64) {
	if err := limitFiles(files); err != nil {
		t.Fatal(err)
	}
	o := natsserver.Options{Dir: os.Getenv("EUSN_TEST_CROWD"), Port: natsserver.RandomPort, Log: pipelinetest.Log(t)}
	if os.Getenv("EUSN_TEST_UNLIMITED") != "" {
		o.Connections = 65536
	}
	start := func() (*natsserver.Server, jetstream.JetStream) {
		s, err := natsserver.Start(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		_, js := pipelinetest.Connect(t, s)
		return s, js
	}
	s, js := start()
	if err := storeEach(t, js, true); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s, js = start() // no file of the store is open
	fmt.Println("listens", s.URL())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		err := storeEach(t, js, false)
		fmt.Println("stored", err == nil)
		if os.Getenv("EUSN_TEST_UNLIMITED") != "" {
			select {
			case <-s.Failed():
				fmt.Println("failed", s.Err())
			case <-time.After(pipelinetest.Patience):
				fmt.Println("not failed", err)
			}
			return
		}
	}
}

// startCrowded starts the second process and opens more connections than its limit of files.
func startCrowded(t *testing.T, env ...string) (until func(text string) string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(append(os.Environ(), "EUSN_TEST_CROWD="+t.TempDir()), env...)
	in, output := parts.StartProgram(t, cmd)
	lines := bufio.NewScanner(output)
	until = func(text string) string {
		for lines.Scan() {
			if lines, ok := strings.CutPrefix(lines.Text(), text+" "); ok {
				return lines
			}
		}
		t.Fatalf("the other process ended before it printed %q", text)
		return ""
	}
	addr := strings.TrimPrefix(until("listens"), "nats://")
	for range 1500 {
		c, err := net.DialTimeout("tcp", addr, 10*time.Second)
		if err != nil {
			break // the system's queue is full
		}
		t.Cleanup(func() { c.Close() })
	}
	time.Sleep(500 * time.Millisecond)
	fmt.Fprintln(in, "store")
	return until
}

// A client with access to the server's port, without a login, cannot exhaust the files of the
// store.
func TestConnectionsLeaveFiles(t *testing.T) {
	if os.Getenv("EUSN_TEST_CROWD") != "" {
		runCrowded(t, 1024)
		return
	}
	if got := startCrowded(t)("stored"); got != "true" {
		t.Error("the store takes nothing while clients have as many connections as they can get")
	}
}

// A store without free files fails until a restart: the server reports the failure with its
// cause.
func TestStoreWithoutFiles(t *testing.T) {
	if os.Getenv("EUSN_TEST_CROWD") != "" {
		runCrowded(t, 1024)
		return
	}
	got := startCrowded(t, "EUSN_TEST_UNLIMITED=1")("failed")
	if !strings.Contains(got, natsserver.ErrStore.Error()) || !strings.Contains(got, "too many open files") || strings.Contains(got, "free space") {
		t.Errorf("the server failed with %q", got)
	}
}
