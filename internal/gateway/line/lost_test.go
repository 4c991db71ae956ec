package line

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// Dropped packets may belong to any stream over UDP: the next message of each stream has a new
// incarnation, so the stage flags a gap. Later messages, and an unknown stream, do not change.
func TestLostPacketsAreAGap(t *testing.T) {
	t.Parallel()
	nc, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	in, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EUSN-IN", Subjects: []string{"sensors.*"},
		SubjectTransform: &jetstream.SubjectTransformConfig{Source: "sensors.*", Destination: "eusn.in.0.{{wildcard(1)}}"}})
	if err != nil {
		t.Fatal(err)
	}
	book := &pipelinetest.LogBook{}
	g, err := gateway.New(nc, gateway.Config{Channels: []string{"x"}, Decoder: words{}, Lines: words{}, Dir: t.TempDir(), Log: book.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	u, err := ListenUDP(g, "127.0.0.1:0", book.Logger())
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	c, err := net.Dial("udp", u.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	send := func(lines string) {
		t.Helper()
		if _, err := io.WriteString(c, lines); err != nil {
			t.Fatal(err)
		}
	}
	send("a 1\nb 1\n")
	pipelinetest.Until(t, "packets are dropped: the gateway does not run yet", func() bool {
		send("a 2\n")
		return g.Stats().Dropped > 0
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	for i := range 2 {
		pipelinetest.Until(t, "the queue has room", func() bool { return len(u.queue) == 0 })
		send("a 3\nb 3\nc 3\n")
		pipelinetest.Until(t, "the packet is stored", func() bool {
			info, err := in.Info(t.Context(), jetstream.WithSubjectFilter("eusn.in.0.>"))
			return err == nil && info.State.Subjects["eusn.in.0.c"] == uint64(i+1) && info.State.Subjects["eusn.in.0.b"] == uint64(i+2) && g.Stats().Waiting == 0
		})
	}
	for key, want := range map[string]int{"a": 2, "b": 2, "c": 1} {
		if n := countIncarnations(t, in, key); n != want {
			t.Errorf("%s: %d incarnations, want %d", key, n, want)
		}
	}
}

// countIncarnations returns the number of incarnations of a stream in the input.
func countIncarnations(t *testing.T, in jetstream.Stream, key string) int {
	t.Helper()
	last, err := in.GetLastMsgForSubject(t.Context(), "eusn.in.0."+key)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for seq := uint64(1); seq <= last.Sequence; seq++ {
		m, err := in.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		if m.Subject == last.Subject {
			all[m.Header.Get("Eusn-Incarnation")] = true
		}
	}
	return len(all)
}
