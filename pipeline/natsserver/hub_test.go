package natsserver_test

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline/natsserver"
)

// startHub starts the server of a centre.
func startHub(t *testing.T, dir string, leaves int) *server.Server {
	t.Helper()
	o := &server.Options{ServerName: "hub", Host: "127.0.0.1", Port: -1, NoSigs: true, JetStream: true, JetStreamDomain: "hub", StoreDir: dir}
	o.LeafNode.Host, o.LeafNode.Port = "127.0.0.1", leaves
	o.LeafNode.Users = []*server.User{{Username: "site", Password: "secret"}}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(pipelinetest.Patience) {
		t.Fatal("the centre does not start")
	}
	return s
}

// A server with a centre takes messages while the centre is away, before it was ever there
// and after a cut, and the centre's mirror gets each of them once.
func TestHub(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	s, err := natsserver.Start(natsserver.Options{Dir: t.TempDir(), Hub: fmt.Sprintf("nats://site:secret@127.0.0.1:%d", port), Domain: "plant7"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	nc, err := s.Connect("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "SITE", Subjects: []string{"site.>"}}); err != nil {
		t.Fatal(err)
	}
	sent := 0
	publish := func() {
		for range 10 {
			if _, err := js.Publish(t.Context(), "site.a", fmt.Append(nil, sent)); err != nil {
				t.Fatal(err)
			}
			sent++
		}
	}
	publish()
	dir := t.TempDir()
	for round := range 2 {
		hub := startHub(t, dir, port)
		at, err := nats.Connect(hub.ClientURL())
		if err != nil {
			t.Fatal(err)
		}
		central, err := jetstream.New(at)
		if err != nil {
			t.Fatal(err)
		}
		publish()
		want := uint64(sent)
		var mirror jetstream.Stream
		for end := time.Now().Add(pipelinetest.Patience); ; time.Sleep(50 * time.Millisecond) {
			mirror, err = central.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "SITE", Mirror: &jetstream.StreamSource{Name: "SITE", Domain: "plant7"}})
			var info *jetstream.StreamInfo
			if err == nil {
				if info, err = mirror.Info(t.Context()); err == nil && info.State.LastSeq == want && info.State.Msgs == want {
					break
				}
			}
			if time.Now().After(end) {
				t.Fatalf("round %d: the mirror does not have the %d messages: %+v, %v", round, want, info, err)
			}
		}
		for n := range sent {
			m, err := mirror.GetMsg(t.Context(), uint64(n+1))
			if err != nil || string(m.Data) != fmt.Sprint(n) {
				t.Fatalf("message %d of the mirror: %v, %v", n, m, err)
			}
		}
		at.Close()
		hub.Shutdown()
		hub.WaitForShutdown()
		publish() // while it is away
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
		{natsserver.Options{Hub: "tls://hub", Domain: "a", HubCA: filepath.Join(t.TempDir(), "none.pem")}, "none.pem"},
	} {
		c.o.Dir = t.TempDir()
		s, err := natsserver.Start(c.o)
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, natsserver.ErrHub) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want %q", c.o.Hub, err, c.says)
		}
	}
}
