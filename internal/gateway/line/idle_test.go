package line

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
)

// At the maximum of connections, an idle connection is replaced: first a connection without a
// line. An active connection stays.
func TestIdleConnectionsGivePlace(t *testing.T) {
	t.Parallel()
	g, book, stored := startGateway(t)
	l, err := ListenTCP(g, "127.0.0.1:0", gateway.Access{}, book.Logger())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.mu.Lock()
	l.limit, l.idleFirst, l.idle = 3, 20*time.Millisecond, time.Hour
	l.mu.Unlock()
	open := func(lines string) net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(20 * time.Second))
		io.WriteString(c, lines)
		return c
	}
	await := func(key string) {
		for stop := time.Now().Add(20 * time.Second); stored(key) == 0; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(stop) {
				t.Fatalf("nothing of %s is stored\n%s", key, book.String())
			}
		}
	}
	device := open("device 1\n")
	await("device")
	silent := []net.Conn{open(""), open("")}
	time.Sleep(100 * time.Millisecond)
	open("new 1\n")
	await("new")
	open("newer 1\n")
	await("newer")
	for _, c := range silent {
		if _, err := c.Read(make([]byte, 1)); err != io.EOF && !isReset(err) {
			t.Errorf("a silent connection: %v, want its end", err)
		}
	}
	if _, err := open("").Read(make([]byte, 1)); err != io.EOF && !isReset(err) {
		t.Errorf("a connection for which there is no place: %v, want its end", err)
	}
	io.WriteString(device, "device2 1\n")
	await("device2")
}

func isReset(err error) bool { return err != nil && !isTimeout(err) }
