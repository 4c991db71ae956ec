package listen

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// start accepts connections on a limited listener and hands them over.
func start(t *testing.T, limits Limits) (addr string, accepted chan net.Conn) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Limit(inner, limits)
	t.Cleanup(func() { l.Close() })
	accepted = make(chan net.Conn, 16)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	return inner.Addr().String(), accepted
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func next(t *testing.T, accepted chan net.Conn) net.Conn {
	t.Helper()
	select {
	case c := <-accepted:
		return c
	case <-time.After(10 * time.Second):
		t.Fatal("no connection is accepted")
		return nil
	}
}

// A connection over the limit waits, and is accepted when another one ends.
func TestConnectionsWait(t *testing.T) {
	addr, accepted := start(t, Limits{Connections: 2})
	for range 3 {
		dial(t, addr)
	}
	first := next(t, accepted)
	next(t, accepted)
	select {
	case <-accepted:
		t.Fatal("a third connection is accepted while there are two of at most two")
	case <-time.After(100 * time.Millisecond):
	}
	first.Close()
	first.Close() // counts once
	next(t, accepted)
	select {
	case <-accepted:
		t.Fatal("a fourth connection came from nowhere")
	case <-time.After(50 * time.Millisecond):
	}
}

// A connection over the limit of its address is closed at once, also where there is room
// for others, and the log reports it. When one of the address ends, there is room again.
func TestConnectionsOfOneAddress(t *testing.T) {
	var log bytes.Buffer
	addr, accepted := start(t, Limits{Connections: 8, PerAddress: 2, Name: "test", Log: slog.New(slog.NewTextHandler(&log, nil))})
	dial(t, addr)
	dial(t, addr)
	first := next(t, accepted)
	next(t, accepted)
	third := dial(t, addr)
	_ = third.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := third.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("the third connection of an address: %v, want it closed", err)
	}
	if !strings.Contains(log.String(), "127.0.0.1") || !strings.Contains(log.String(), "limit=2") {
		t.Errorf("the log has %q", log.String())
	}
	first.Close()
	dial(t, addr)
	next(t, accepted)
}

// flaky fails to accept once, as a process without a free file does.
type flaky struct {
	net.Listener
	failed bool
}

func (f *flaky) Accept() (net.Conn, error) {
	if !f.failed {
		f.failed = true
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return f.Listener.Accept()
}

// Without a file for a connection the listener waits; it does not end.
func TestAcceptWithoutFiles(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Limit(&flaky{Listener: inner}, Limits{Connections: 1})
	defer l.Close()
	dial(t, inner.Addr().String())
	if _, err := l.Accept(); err != nil {
		t.Fatal(err)
	}
	go func() { time.Sleep(20 * time.Millisecond); l.Close() }()
	dial(t, inner.Addr().String())
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed listener at its limit: %v", err)
	}
}

// Addresses are counted as one client can have them.
func TestPrefixes(t *testing.T) {
	for address, want := range map[string]string{
		"10.0.0.5": "10.0.0.5/32", "::ffff:10.0.0.5": "10.0.0.5/32", "fd00:1:2:3:4:5:6:7": "fd00:1:2:3::/64", "::1": "::1/128",
	} {
		if got := prefixOf(&net.TCPAddr{IP: net.ParseIP(address), Port: 9}); got.String() != want {
			t.Errorf("%s counts as %s, want %s", address, got, want)
		}
	}
}

// The sum of all needs is compared with the limit, and the error has all figures.
func TestFiles(t *testing.T) {
	needs := []Need{{"the metrics port", 256}, {"the NATS server", 1000}}
	if err := compareFiles(1256, needs); err != nil {
		t.Errorf("1256 of 1256 files: %v", err)
	}
	err := compareFiles(1255, needs)
	for _, want := range []string{"1255", "1256", "256 for the metrics port", "1000 for the NATS server"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	for limit, want := range map[int]int{512: leastShare, 1024: 128, 20_000: 4872, 65_536: 16_256, 1 << 20: 16_384} {
		if got := share(limit, 16_384, 512, 4); got != want {
			t.Errorf("of %d files a listener may have %d, want %d", limit, got, want)
		}
	}
	if limit, ok := OpenFiles(); ok && limit < 64 {
		t.Errorf("this process may have %d files open", limit)
	}
	if err := CheckFiles(Need{"a test", 1}); err != nil {
		t.Error(err)
	}
}
