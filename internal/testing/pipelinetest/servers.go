package pipelinetest

import (
	"net/url"
	"strconv"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
)

// Server starts a server that ends with the test. Without o.Dir it has a
// directory of its own, without o.Log it logs to the test's log.
func Server(t testing.TB, o natsserver.Options) *natsserver.Server {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.Log == nil {
		o.Log = Log(t)
	}
	s, err := natsserver.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Connect is the test's own connection to a server. It ends with the test.
func Connect(t testing.TB, s *natsserver.Server) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := s.Connect("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	return nc, JetStream(t, nc)
}

// JetStream speaks over a connection, which ends with the test.
func JetStream(t testing.TB, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// Port is where a server listens.
func Port(t testing.TB, s *natsserver.Server) int {
	t.Helper()
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Serve is a server of its own with these options, until the test ends.
func Serve(t testing.TB, o *server.Options) *server.Server {
	t.Helper()
	ns, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(Patience) {
		t.Fatal("the server does not start")
	}
	return ns
}

// JetStreamAt connects to a server until the test ends.
func JetStreamAt(t testing.TB, url string, opts ...nats.Option) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return JetStream(t, nc)
}
