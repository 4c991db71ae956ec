package natsserver_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// startHub starts a central server.
func startHub(t *testing.T, dir string, leaves int) *server.Server {
	t.Helper()
	o := &server.Options{ServerName: "hub", Host: "127.0.0.1", Port: -1, NoSigs: true, JetStream: true, JetStreamDomain: "hub", StoreDir: dir}
	o.LeafNode.Host, o.LeafNode.Port = "127.0.0.1", leaves
	// The server would connect to an advertised address past the cable.
	o.LeafNode.NoAdvertise = true
	o.LeafNode.Users = []*server.User{{Username: "site", Password: "secret"}}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(pipelinetest.Patience) {
		t.Fatal("the center does not start")
	}
	return s
}

// A server accepts messages before its first connection to the central server and after an
// interruption, and the central server's mirror gets each message once.
func TestHub(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	way := pipelinetest.NewCable(t, port)
	_, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{Hub: "nats://site:secret@" + way.Addr(), Domain: "plant7"}))
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "SITE", Subjects: []string{"site.>"}}); err != nil {
		t.Fatal(err)
	}
	count := 0
	publish := func() {
		t.Helper()
		for range 10 {
			if _, err := js.Publish(t.Context(), "site.a", fmt.Append(nil, count)); err != nil {
				t.Fatal(err)
			}
			count++
		}
	}
	publish() // before the first connection
	hub := startHub(t, t.TempDir(), port)
	t.Cleanup(func() { hub.Shutdown(); hub.WaitForShutdown() })
	at, err := nats.Connect(hub.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	central := pipelinetest.JetStream(t, at)
	// A mirror without a link at its first request retries after 40 seconds.
	linked := func() bool {
		_, err := at.Request("$JS.plant7.API.INFO", nil, time.Second)
		return err == nil
	}
	pipelinetest.Until(t, "link", linked)
	mirror, err := central.CreateStream(t.Context(), jetstream.StreamConfig{Name: "SITE", Mirror: &jetstream.StreamSource{Name: "SITE", Domain: "plant7"}})
	if err != nil {
		t.Fatal(err)
	}
	holds := func() uint64 {
		info, err := mirror.Info(t.Context())
		if err != nil || info.State.LastSeq != info.State.Msgs {
			t.Fatalf("the mirror: %+v, %v", info, err)
		}
		return info.State.Msgs
	}
	publish()
	pipelinetest.Until(t, "mirror of all messages before the cut", func() bool { return holds() == uint64(count) })
	way.Set(true)
	pipelinetest.Until(t, "cut", func() bool { return !linked() })
	publish() // during the interruption
	if got := holds(); got != uint64(count-10) {
		t.Errorf("cut off, the mirror has %d messages of %d: the test has lost its subject", got, count)
	}
	way.Set(false)
	publish()
	pipelinetest.Until(t, "mirror of all messages after the cut", func() bool { return holds() == uint64(count) })
	for n := range count {
		m, err := mirror.GetMsg(t.Context(), uint64(n+1))
		if err != nil || string(m.Data) != fmt.Sprint(n) {
			t.Fatalf("message %d of the mirror: %v, %v", n, m, err)
		}
	}
}

func TestHubRefused(t *testing.T) {
	for _, c := range []struct {
		o    natsserver.Options
		says string
	}{
		{natsserver.Options{Hub: "hub.example:7422", Domain: "a"}, "want a URL"},
		{natsserver.Options{Hub: "http://site:secret@hub", Domain: "a"}, "want a URL"},
		{natsserver.Options{Hub: "tls://site:secret@", Domain: "a"}, "want a URL"},
		{natsserver.Options{Hub: "tls://hub"}, "domain"},
	} {
		c.o.Dir = t.TempDir()
		s, err := natsserver.Start(t.Context(), c.o)
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, natsserver.ErrHub) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want %q", c.o.Hub, err, c.says)
		}
	}
}
