package line

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// words decodes lines of the form "key n": one sample of the stream key.
type words struct{}

func (words) Decode(p []byte) ([]gateway.Part, error) {
	var all []gateway.Part
	for line := range strings.Lines(string(p)) {
		part := gateway.Part{X: make([]float32, 1)}
		if _, err := fmt.Sscan(line, &part.Key, &part.X[0]); err != nil {
			return nil, errors.New("want a key and a number")
		}
		all = append(all, part)
	}
	return all, nil
}

// startGateway runs a gateway; the returned function counts the samples of a key.
func startGateway(t *testing.T) (*gateway.Gateway, *pipelinetest.LogBook, func(key string) uint64) {
	t.Helper()
	g, book, in := startInput(t)
	return g, book, func(key string) uint64 {
		info, err := in.Info(t.Context(), jetstream.WithSubjectFilter("eusn.in.0."+key))
		if err != nil {
			t.Fatal(err)
		}
		return info.State.Subjects["eusn.in.0."+key]
	}
}

// startInput runs a gateway, and returns its input stream.
func startInput(t *testing.T) (*gateway.Gateway, *pipelinetest.LogBook, jetstream.Stream) {
	t.Helper()
	nc, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	in, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EUSN-IN", Subjects: []string{"sensors.*"},
		SubjectTransform: &jetstream.SubjectTransformConfig{Source: "sensors.*", Destination: "eusn.in.0.{{wildcard(1)}}"}})
	if err != nil {
		t.Fatal(err)
	}
	book := &pipelinetest.LogBook{}
	g, err := gateway.New(nc, gateway.Config{Channels: []string{"x"}, Decoder: words{}, Lines: words{}, Dir: t.TempDir(), Rows: 1, Log: book.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return g, book, in
}

// Lines over TCP are read whole, whatever the segments. An invalid line is refused and counted,
// and so is an unfinished line at the end of a connection: it may be the beginning of a longer
// line.
func TestTCP(t *testing.T) {
	t.Parallel()
	g, book, stored := startGateway(t)
	l, err := ListenTCP(g, "127.0.0.1:0", gateway.Access{}, book.Logger())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, piece := range []string{"a 1\na", " 2\nnonsense\n", "a 3\n", "a -12"} { // of -12.75
		if _, err := io.WriteString(c, piece); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	pipelinetest.Until(t, "three samples", func() bool { return g.Stats().Samples == 3 })
	pipelinetest.Until(t, "all of them stored", func() bool { return g.Stats().Waiting == 0 && stored("a") > 0 })
	pipelinetest.Until(t, "two lines are refused", func() bool { return g.Stats().Refused["tcp"] == 2 })
	if n := g.Stats().Samples; n != 3 {
		t.Errorf("%d samples, want 3: the beginning of a line is no line", n)
	}
}

// A line over the size limit ends its connection. The end of the input ends all connections.
func TestTCPEnds(t *testing.T) {
	t.Parallel()
	g, book, stored := startGateway(t)
	l, err := ListenTCP(g, "127.0.0.1:0", gateway.Access{}, book.Logger())
	if err != nil {
		t.Fatal(err)
	}
	long, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer long.Close()
	io.WriteString(long, "a 1\na "+strings.Repeat("1", 2*maxLine)) // an error if the connection has already ended
	_, _ = io.ReadAll(long)                                        // an error if the server has reset the connection
	pipelinetest.Until(t, "the line before it is stored", func() bool { return stored("a") == 1 })
	pipelinetest.Until(t, "the long line is refused", func() bool { return g.Stats().Refused["tcp"] == 1 && book.Lines("a line has more than") == 1 })
	if n := g.Stats().Samples; n != 1 {
		t.Errorf("%d samples, want 1: the beginning of a long line is no line", n)
	}
	idle, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	io.WriteString(idle, "b 1\n")
	pipelinetest.Until(t, "the line of the other is stored", func() bool { return stored("b") == 1 })
	l.Close()
	if _, err := idle.Read(make([]byte, 1)); err == nil {
		t.Error("a connection outlives its input")
	}
}

// Each packet over UDP has whole lines.
func TestUDP(t *testing.T) {
	t.Parallel()
	g, book, stored := startGateway(t)
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
	for _, packet := range []string{"a 1\na 2\n", "nonsense", "a 3"} {
		if _, err := io.WriteString(c, packet); err != nil {
			t.Fatal(err)
		}
	}
	pipelinetest.Until(t, "three samples", func() bool { return g.Stats().Samples == 3 })
	pipelinetest.Until(t, "all of them stored", func() bool { return g.Stats().Waiting == 0 && stored("a") > 0 })
	pipelinetest.Until(t, "one is refused", func() bool { return g.Stats().Refused["udp"] == 1 })
}
