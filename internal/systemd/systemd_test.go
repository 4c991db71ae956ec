//go:build linux

package systemd

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// manager listens as a service manager does, and hands on what it hears.
func manager(t *testing.T) <-chan string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	t.Setenv("NOTIFY_SOCKET", at)
	heard := make(chan string, 100)
	go func() {
		for b := make([]byte, 4096); ; {
			n, err := c.Read(b)
			if err != nil {
				close(heard)
				return
			}
			heard <- string(b[:n])
		}
	}()
	return heard
}

func hear(t *testing.T, from <-chan string) string {
	t.Helper()
	select {
	case s := <-from:
		return s
	case <-time.After(time.Minute):
		t.Fatal("nothing was told in a minute")
		return ""
	}
}

// The service manager hears: ready, alive, stopping, each with a status of one line.
func TestManagerHears(t *testing.T) {
	heard := manager(t)
	t.Setenv("WATCHDOG_USEC", "60000")
	t.Setenv("WATCHDOG_PID", "")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		Follow(ctx, slog.New(slog.DiscardHandler), func() string { return "two partitions\nreading" })
		close(ended)
	}()
	if got, want := hear(t, heard), "READY=1\nSTATUS=two partitions reading"; got != want {
		t.Errorf("first %q, want %q", got, want)
	}
	for range 3 {
		if got, want := hear(t, heard), "WATCHDOG=1\nSTATUS=two partitions reading"; got != want {
			t.Errorf("then %q, want %q", got, want)
		}
	}
	cancel()
	<-ended
	last := ""
	for !strings.HasPrefix(last, "STOPPING=1") {
		last = hear(t, heard)
	}
}

// A status that hangs is not told as one that answers.
func TestHangingProgramIsSilent(t *testing.T) {
	heard := manager(t)
	t.Setenv("WATCHDOG_USEC", "3000")
	t.Setenv("WATCHDOG_PID", "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	calls, asked := 0, make(chan struct{})
	release := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		Follow(ctx, slog.New(slog.DiscardHandler), func() string {
			if calls++; calls == 2 {
				close(asked)
				<-release
			}
			return "well"
		})
		close(ended)
	}()
	hear(t, heard) // ready
	<-asked
	select {
	case got := <-heard:
		t.Errorf("while it hung it told %q", got)
	default:
	}
	cancel()
	close(release)
	<-ended
}

// Without a service manager nothing is asked, and nothing waits.
func TestNoManager(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	Follow(t.Context(), slog.New(slog.DiscardHandler), func() string { return "" })
}

// One that does not listen is told of in the log, and the program goes on.
func TestDeafManager(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "nobody"))
	var log strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	Follow(ctx, slog.New(slog.NewTextHandler(&log, nil)), func() string { return "" })
	if n := strings.Count(log.String(), "NotifyAccess"); n != 1 {
		t.Errorf("said %d times, want once: %s", n, log.String())
	}
}
