package line

import (
	"io"
	"net"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// Packets dropped by the system are counted with the next packet, and are a gap of each stream
// over UDP.
func TestUnseenPacketsAreAGap(t *testing.T) {
	t.Parallel()
	g, book, in := startInput(t)
	u, err := ListenUDP(g, "127.0.0.1:0", book.Logger())
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	if err := u.conn.SetReadBuffer(1); err != nil { // the minimum: some packets
		t.Fatal(err)
	}
	c, err := net.Dial("udp", u.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	count := uint64(0)
	send := func(lines string) {
		t.Helper()
		if _, err := io.WriteString(c, lines); err != nil {
			t.Fatal(err)
		}
		count++
	}
	all := func() bool { s := g.Stats(); return s.Messages["udp"]+s.Dropped == count && s.Waiting == 0 }
	send("a 1\nb 1\n")
	pipelinetest.Until(t, "the first packet is stored", all)
	pipelinetest.Until(t, "the system drops packets", func() bool {
		for range 500 {
			send("a 2\n")
		}
		return g.Stats().Dropped > 0
	})
	pipelinetest.Until(t, "all packets are stored or counted", func() bool {
		if all() {
			return true
		}
		send("a 3\n") // reports the earlier drops
		return false
	})
	for i := range 2 {
		send("a 4\nb 4\nc 4\n")
		pipelinetest.Until(t, "the packet is stored", func() bool {
			info, err := in.Info(t.Context(), jetstream.WithSubjectFilter("eusn.in.0.>"))
			return err == nil && info.State.Subjects["eusn.in.0.c"] == uint64(i+1) && info.State.Subjects["eusn.in.0.b"] == uint64(i+2)
		})
	}
	for key, want := range map[string]int{"b": 2, "c": 1} {
		if n := countIncarnations(t, in, key); n != want {
			t.Errorf("%s: %d incarnations, want %d", key, n, want)
		}
	}
	if n := countIncarnations(t, in, "a"); n < 2 {
		t.Errorf("a: %d incarnations, want at least 2", n)
	}
	if book.Lines("the system has dropped packets") == 0 {
		t.Errorf("the log does not say so:\n%s", book)
	}
}
