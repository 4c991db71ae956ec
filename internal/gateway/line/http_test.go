package line

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
)

// A web page can make a browser send lines in the body of a request. Such a connection ends at
// its first line, and the gateway stores nothing.
func TestHTTPIsNotLines(t *testing.T) {
	t.Parallel()
	g, book, stored := startGateway(t)
	l, err := ListenTCP(g, "127.0.0.1:0", gateway.Access{}, book.Logger())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, request := range []string{
		"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 7\r\n\r\nevil 1\n",
		"GET /?evil=1 HTTP/1.1\r\n\r\nevil 1\n",
		"patch * HTTP/1.0\nevil 1\n",
	} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(10 * time.Second))
		io.WriteString(c, request)
		if _, err := c.Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Errorf("%q: %v, want an ended connection", request, err)
		}
		c.Close()
	}
	c, err := net.Dial("tcp", l.Addr().String()) // other connections are not affected
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "good 1\n")
	for stored("good") == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	if n, refused := stored("evil"), g.Stats().Refused["tcp"]; n != 0 || refused != 3 {
		t.Errorf("%d samples of the requests are stored, %d connections refused; want 0, 3", n, refused)
	}
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}
