package web

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// Bodies that do not come keep no other device out: the room for requests is taken after
// the body.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{}, nil)
	for range requests + 50 {
		c, err := net.Dial("tcp", r.s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		fmt.Fprint(c, "POST /v1/plant/slow HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1")
	}
	time.Sleep(500 * time.Millisecond) // the test could miss the fault, not find one
	if code := r.post("plant/a"); code != 204 {
		t.Errorf("a device beside slow ones: %d", code)
	}
}

// Large bodies on their way have few places, and small ones need none.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{}, nil)
	c, err := net.Dial("tcp", r.s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "POST /v1/plant/slow HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n1\r\n")
	h := r.s.handler
	for stop := time.Now().Add(10 * time.Second); len(h.large) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(stop) {
			t.Fatal("a body of unknown length takes no place")
		}
	}
	if code := r.post("plant/a"); code != 204 {
		t.Errorf("a small body beside it: %d", code)
	}
	io.WriteString(c, "0\r\n\r\n")
	for stop := time.Now().Add(10 * time.Second); len(h.large) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(stop) {
			t.Fatal("a body that has come keeps its place")
		}
	}
}
