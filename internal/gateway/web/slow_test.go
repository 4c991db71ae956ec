package web

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/listen"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// openRequest sends the beginning of a request.
func (r *rig) openRequest(format string, args ...any) net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.s.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(pipelinetest.Patience))
	fmt.Fprintf(c, format, args...)
	return c
}

const length9 = "POST /v1/plant/slow HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1"

// Missing bodies block no other device: a request gets its place for storing after its body.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{}, nil)
	for range maxRequests + 50 {
		r.openRequest(length9)
	}
	time.Sleep(500 * time.Millisecond) // a wait that is too short can only hide the fault
	if code := r.postSample("plant/a"); code != 204 {
		t.Errorf("a device beside slow ones: %d", code)
	}
}

// A body must keep a pace, and needs a place only above the small size. A body with enough pace
// is accepted, whatever its duration.
func TestSlowBodiesEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{MaxMessage: 64 << 10}, nil)
	h := r.s.handler
	h.pace = listen.Pace{Bytes: 4 << 10, Each: 300 * time.Millisecond, Whole: pipelinetest.Patience}
	h.large = listen.NewPlaces(1)
	chunked := "POST /v1/plant/slow HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
	slow := []net.Conn{r.openRequest(length9), r.openRequest("%s1\r\n1\r\n", chunked), r.openRequest("POST /v1/plant/slow HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n1")}
	if n := h.large.Used(); n != 0 {
		t.Errorf("%d places are taken by bodies of a byte", n)
	}
	large := fmt.Sprintf("%x\r\n%s\r\n", smallBody+2, strings.Repeat("1", smallBody+2))
	slow = append(slow, r.openRequest("%s", chunked+large))
	pipelinetest.Until(t, "a large body has the place", func() bool { return h.large.Used() == 1 })
	begun := time.Now()
	for i, c := range slow {
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("slow body %d: %v", i, err)
		}
		text, _ := io.ReadAll(answer.Body)
		if answer.StatusCode != 408 || !strings.Contains(string(text), "too slowly: want 4096 bytes in each 300ms") {
			t.Errorf("slow body %d: %d %s", i, answer.StatusCode, text)
		}
	}
	if d := time.Since(begun); d > 20*time.Second {
		t.Errorf("the slow bodies end after %v", d)
	}
	if n := h.large.Used(); n != 0 || r.g.Stats().Refused["http"] != 4 {
		t.Errorf("%d places, %d refused; want 0, 4", n, r.g.Stats().Refused["http"])
	}
	steady := r.openRequest("%s", chunked)
	for range 8 { // longer than the period
		fmt.Fprintf(steady, "1000\r\n%s\r\n", strings.Repeat("1", 0x1000))
		time.Sleep(60 * time.Millisecond)
	}
	io.WriteString(steady, "0\r\n\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(steady), nil)
	if err != nil || answer.StatusCode != 204 {
		t.Errorf("a steady body: %v, %v", answer, err)
	}
}

// One address gets a part of the places for large bodies. Small bodies need no place.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{MaxMessage: 64 << 10}, nil)
	h := r.s.handler
	h.large = listen.NewPlaces(8)
	var all []net.Conn
	for range 3 {
		all = append(all, r.openRequest("POST /v1/plant/slow HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", smallBody+3, strings.Repeat("1", smallBody+2)))
	}
	pipelinetest.Until(t, "the address has its places", func() bool { return h.large.Used() == 2 })
	if code := r.postSample("plant/a"); code != 204 {
		t.Errorf("a small body beside them: %d", code)
	}
	if n := h.large.Used(); n != 2 {
		t.Errorf("an address has %d of 8 places, want 2", n)
	}
	for _, c := range all {
		io.WriteString(c, "1")
	}
	pipelinetest.Until(t, "bodies that have come give their places back", func() bool { return h.large.Used() == 0 && r.g.Stats().Messages["http"] == 4 })
}
