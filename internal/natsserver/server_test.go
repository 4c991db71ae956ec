package natsserver_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// A directory has one server, also across processes; the error has the number of the other
// process.
func TestDirectoryLock(t *testing.T) {
	if dir := os.Getenv("EUSN_TEST_LOCK"); dir != "" { // the second process
		_, err := natsserver.Start(t.Context(), natsserver.Options{Dir: dir})
		fmt.Println("second:", err)
		return
	}
	dir := t.TempDir()
	s, err := natsserver.Start(t.Context(), natsserver.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	_, err = natsserver.Start(t.Context(), natsserver.Options{Dir: dir})
	pipelinetest.Mentions(t, err, dir, "in use", fmt.Sprintf("process %d", os.Getpid()))
	cmd := exec.Command(os.Args[0], "-test.run=^TestDirectoryLock$")
	cmd.Env = append(os.Environ(), "EUSN_TEST_LOCK="+dir)
	output, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(output), fmt.Sprintf("in use by process %d", os.Getpid())) {
		t.Errorf("another process got in: %v\n%s", err, output)
	}
	s.Close()
	s.Close()
	if s, err = natsserver.Start(t.Context(), natsserver.Options{Dir: dir}); err != nil {
		t.Fatalf("after Close: %v", err)
	}
	s.Close()
}

func TestServerRefuses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	dir := t.TempDir()
	_, err = natsserver.Start(t.Context(), natsserver.Options{Dir: dir, Port: port})
	pipelinetest.Mentions(t, err, fmt.Sprint(port), "in use", "another port")
	if s, err := natsserver.Start(t.Context(), natsserver.Options{Dir: dir}); err != nil {
		t.Errorf("the failed start kept the directory locked: %v", err)
	} else {
		s.Close()
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = natsserver.Start(t.Context(), natsserver.Options{Dir: file})
	pipelinetest.Mentions(t, err, file, "not a directory")
	_, err = natsserver.Start(t.Context(), natsserver.Options{})
	pipelinetest.Mentions(t, err, "no data directory")
}

func TestReadOnlyDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("NOT CHECKED: permissions do not bind the superuser; run as another user to test a read-only data directory")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	_, err := natsserver.Start(t.Context(), natsserver.Options{Dir: dir})
	pipelinetest.Mentions(t, err, dir, "not writable")
}

// Two clients with simultaneous requests right after the start both get an answer.
func TestFirstRequests(t *testing.T) {
	for range 20 {
		srv, err := natsserver.Start(t.Context(), natsserver.Options{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			nc, err := srv.Connect("first", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			wg.Go(func() {
				js, err := jetstream.New(nc)
				if err == nil {
					_, err = js.Stream(t.Context(), "NONE")
				}
				if !errors.Is(err, jetstream.ErrStreamNotFound) {
					t.Errorf("asked for what is not there: %v", err)
				}
			})
		}
		wg.Wait()
		srv.Close()
	}
}

func TestStartCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	if _, err := natsserver.Start(ctx, natsserver.Options{Dir: dir}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	s, err := natsserver.Start(t.Context(), natsserver.Options{Dir: dir}) // nobody holds the directory
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

// A running server has a note with its address and id, for its owner only. A stopped server has
// none, and an in-process server removes the note of a server that crashed.
func TestNote(t *testing.T) {
	dir := t.TempDir()
	s, err := natsserver.Start(t.Context(), natsserver.Options{Dir: dir, Port: natsserver.RandomPort})
	if err != nil {
		t.Fatal(err)
	}
	note, err := natsserver.ReadNote(dir)
	if err != nil || note.URL != s.URL() {
		t.Errorf("%+v, %v, want %s", note, err, s.URL())
	}
	nc, err := s.Connect("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	if nc.ConnectedServerId() != note.ID {
		t.Errorf("id %q, want %q", note.ID, nc.ConnectedServerId())
	}
	nc.Close()
	path := filepath.Join(dir, "eusn-server.json")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	crashed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := natsserver.ReadNote(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Close: %v", err)
	}
	if err := os.WriteFile(path, crashed, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err = natsserver.Start(t.Context(), natsserver.Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := natsserver.ReadNote(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a server without an address: %v", err)
	}
}
