package pipelinetest

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
)

// Server starts a server for the duration of the test. Without o.Dir the server uses a
// temporary directory, without o.Log the test's log.
func Server(t testing.TB, o natsserver.Options) *natsserver.Server {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.Log == nil {
		o.Log = Log(t)
	}
	s, err := natsserver.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Connect returns the test's own connection to a server, closed at the end of the test.
func Connect(t testing.TB, s *natsserver.Server) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := s.Connect("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	return nc, JetStream(t, nc)
}

// JetStream returns a JetStream context of a connection, which is closed at the end of
// the test.
func JetStream(t testing.TB, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// Port returns the port of a server.
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

// Serve starts a server with these options until the end of the test.
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

// JetStreamAt connects to a server until the end of the test.
func JetStreamAt(t testing.TB, url string, opts ...nats.Option) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return JetStream(t, nc)
}

// Trio starts a cluster of three servers in this process, named n0, n1 and n2, and
// returns their URLs. The cluster may not have elected its leaders yet.
func Trio(t testing.TB) (urls []string) {
	t.Helper()
	var ports, routes [3]int
	var peers []*url.URL
	for i := range 3 {
		var held []net.Listener
		for _, p := range []*int{&ports[i], &routes[i]} {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, l)
			*p = l.Addr().(*net.TCPAddr).Port
		}
		for _, l := range held {
			l.Close()
		}
		peers = append(peers, &url.URL{Scheme: "nats-route", Host: fmt.Sprintf("127.0.0.1:%d", routes[i])})
	}
	for i := range 3 {
		ns, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprintf("n%d", i), Host: "127.0.0.1", Port: ports[i], JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
			Cluster: server.ClusterOpts{Name: "trio", Host: "127.0.0.1", Port: routes[i]}, Routes: peers,
		})
		if err != nil {
			t.Fatal(err)
		}
		ns.Start()
		t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", ports[i]))
	}
	return urls
}
