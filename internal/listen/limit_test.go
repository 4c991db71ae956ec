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

// startListener accepts connections on a limited listener and passes them to a channel.
func startListener(t *testing.T, limits Limits) (addr string, accepted chan net.Conn) {
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

func dialListener(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func nextConnection(t *testing.T, accepted chan net.Conn) net.Conn {
	t.Helper()
	select {
	case c := <-accepted:
		return c
	case <-time.After(10 * time.Second):
		t.Fatal("no connection is accepted")
		return nil
	}
}

// A connection over the limit waits, and is accepted after another connection ends.
func TestConnectionsWait(t *testing.T) {
	addr, accepted := startListener(t, Limits{Connections: 2})
	for range 3 {
		dialListener(t, addr)
	}
	first := nextConnection(t, accepted)
	nextConnection(t, accepted)
	select {
	case <-accepted:
		t.Fatal("a third connection is accepted while there are two of at most two")
	case <-time.After(100 * time.Millisecond):
	}
	first.Close()
	first.Close() // a repeated Close counts once
	nextConnection(t, accepted)
	select {
	case <-accepted:
		t.Fatal("a fourth connection came from nowhere")
	case <-time.After(50 * time.Millisecond):
	}
}

// A connection over the limit of its address is closed at once, even if the listener has room,
// and the log reports it. After the end of another connection of the address, there is room
// again.
func TestConnectionsOfOneAddress(t *testing.T) {
	var log bytes.Buffer
	addr, accepted := startListener(t, Limits{Connections: 8, PerAddress: 2, Name: "test", Log: slog.New(slog.NewTextHandler(&log, nil))})
	dialListener(t, addr)
	dialListener(t, addr)
	first := nextConnection(t, accepted)
	nextConnection(t, accepted)
	third := dialListener(t, addr)
	_ = third.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := third.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("the third connection of an address: %v, want it closed", err)
	}
	if !strings.Contains(log.String(), "127.0.0.1") || !strings.Contains(log.String(), "limit=2") {
		t.Errorf("the log has %q", log.String())
	}
	first.Close()
	dialListener(t, addr)
	nextConnection(t, accepted)
}

// flaky fails its first Accept, like a process without a free file.
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

// Without a free file the listener waits and does not end.
func TestAcceptWithoutFiles(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Limit(&flaky{Listener: inner}, Limits{Connections: 1})
	defer l.Close()
	dialListener(t, inner.Addr().String())
	if _, err := l.Accept(); err != nil {
		t.Fatal(err)
	}
	go func() { time.Sleep(20 * time.Millisecond); l.Close() }()
	dialListener(t, inner.Addr().String())
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed listener at its limit: %v", err)
	}
}

// Addresses are counted by the prefix of one client.
func TestPrefixes(t *testing.T) {
	for address, want := range map[string]string{
		"10.0.0.5": "10.0.0.5/32", "::ffff:10.0.0.5": "10.0.0.5/32", "fd00:1:2:3:4:5:6:7": "fd00:1:2:3::/64", "::1": "::1/128",
	} {
		if got := prefixOf(&net.TCPAddr{IP: net.ParseIP(address), Port: 9}); got.String() != want {
			t.Errorf("%s counts as %s, want %s", address, got, want)
		}
	}
}

// CheckFiles compares the sum of all needs with the limit, and the error has all figures.
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
	if got := Share(70, 512, 4); got != 70 {
		t.Errorf("a listener with a limit of 70 has %d connections, want 70", got)
	}
	for limit, want := range map[int]int{512: minShare, 1024: 128, 20_000: 4872, 65_536: 16_256, 1 << 20: 16_384} {
		if got := shareOf(limit, 16_384, 512, 4); got != want {
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
