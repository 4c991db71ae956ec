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

// startManager listens as a service manager does, and returns the received reports.
func startManager(t *testing.T) <-chan string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	t.Setenv("NOTIFY_SOCKET", at)
	reports := make(chan string, 100)
	go func() {
		for b := make([]byte, 4096); ; {
			n, err := c.Read(b)
			if err != nil {
				close(reports)
				return
			}
			reports <- string(b[:n])
		}
	}()
	return reports
}

func receive(t *testing.T, reports <-chan string) string {
	t.Helper()
	select {
	case s := <-reports:
		return s
	case <-time.After(time.Minute):
		t.Fatal("nothing was told in a minute")
		return ""
	}
}

// The service manager receives ready, alive and stopping, each with a one-line status.
func TestManagerHears(t *testing.T) {
	reports := startManager(t)
	t.Setenv("WATCHDOG_USEC", "60000")
	t.Setenv("WATCHDOG_PID", "")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		Notify(ctx, slog.New(slog.DiscardHandler), func() string { return "two partitions\nreading" })
		close(ended)
	}()
	if got, want := receive(t, reports), "READY=1\nSTATUS=two partitions reading"; got != want {
		t.Errorf("first %q, want %q", got, want)
	}
	for range 3 {
		if got, want := receive(t, reports), "WATCHDOG=1\nSTATUS=two partitions reading"; got != want {
			t.Errorf("then %q, want %q", got, want)
		}
	}
	cancel()
	<-ended
	last := ""
	for !strings.HasPrefix(last, "STOPPING=1") {
		last = receive(t, reports)
	}
}

// A hanging status function stops the keep-alive reports.
func TestHangingProgramIsSilent(t *testing.T) {
	reports := startManager(t)
	t.Setenv("WATCHDOG_USEC", "3000")
	t.Setenv("WATCHDOG_PID", "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	calls, reached := 0, make(chan struct{})
	release := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		Notify(ctx, slog.New(slog.DiscardHandler), func() string {
			if calls++; calls == 2 {
				close(reached)
				<-release
			}
			return "well"
		})
		close(ended)
	}()
	receive(t, reports) // ready
	<-reached
	select {
	case got := <-reports:
		t.Errorf("while it hung it told %q", got)
	default:
	}
	cancel()
	close(release)
	<-ended
}

// Without a service manager Notify does not call status and returns.
func TestNoManager(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	Notify(t.Context(), slog.New(slog.DiscardHandler), func() string { return "" })
}

// If the manager does not listen, the log has a warning, and the program continues.
func TestDeafManager(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "nobody"))
	var log strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	Notify(ctx, slog.New(slog.NewTextHandler(&log, nil)), func() string { return "" })
	if n := strings.Count(log.String(), "NotifyAccess"); n != 1 {
		t.Errorf("said %d times, want once: %s", n, log.String())
	}
}
