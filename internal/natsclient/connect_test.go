package natsclient_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

func TestConnectErrors(t *testing.T) {
	_, err := natsclient.Connect(t.Context(), natsclient.Options{URL: "nats://user:secret@127.0.0.1:1"})
	pipelinetest.Mentions(t, err, "127.0.0.1:1", "is it running")
	if err != nil && strings.Contains(err.Error(), "secret") {
		t.Errorf("the password is in the error: %v", err)
	}
	_, err = natsclient.Connect(t.Context(), natsclient.Options{Creds: "a", Token: "b"})
	pipelinetest.Mentions(t, err, "one of")
	_, err = natsclient.Connect(t.Context(), natsclient.Options{Cert: "a"})
	pipelinetest.Mentions(t, err, "both")
	_, err = natsclient.Connect(t.Context(), natsclient.Options{NKey: filepath.Join(t.TempDir(), "none")})
	pipelinetest.Mentions(t, err, "nkey", "none")
}

// slowPort accepts connections to addr and delays them, like an overloaded machine.
func slowPort(t *testing.T, addr string, wait time.Duration) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(func() { l.Close() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				time.Sleep(wait)
				s, err := net.Dial("tcp", addr)
				if err != nil {
					return
				}
				defer s.Close()
				wg.Go(func() { defer c.Close(); _, _ = copyBytes(c, s) })
				_, _ = copyBytes(s, c)
			})
		}
	})
	return l.Addr().String()
}

func copyBytes(to, from net.Conn) (n int, err error) {
	buf := make([]byte, 4096)
	for {
		if n, err = from.Read(buf); err != nil {
			return n, err
		}
		if _, err = to.Write(buf[:n]); err != nil {
			return n, err
		}
	}
}

// A server with a greeting after three seconds is still reached.
func TestConnectWaits(t *testing.T) {
	t.Parallel()
	srv := pipelinetest.Server(t, natsserver.Options{Port: natsserver.RandomPort})
	nc, err := natsclient.Connect(t.Context(), natsclient.Options{URL: "nats://" + slowPort(t, strings.TrimPrefix(srv.URL(), "nats://"), 3*time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
}

// The end of a context also ends waiting for a silent server.
func TestConnectKeepsContext(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	o := natsclient.Options{URL: "nats://" + silent.Addr().String()}
	deadline, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for want, ctx := range map[error]context.Context{context.DeadlineExceeded: deadline, context.Canceled: canceled} {
		began := time.Now()
		if _, err := natsclient.Connect(ctx, o); !errors.Is(err, want) {
			t.Errorf("error %v, want %v", err, want)
		}
		if waited := time.Since(began); waited > 2*time.Second {
			t.Errorf("%v: returned after %v", want, waited)
		}
	}
}

// A revoked login is one line in the log, not eight a second, while the client
// continues to try.
func TestRevokedLogin(t *testing.T) {
	t.Parallel()
	o := &server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, Username: "u", Password: "before"}
	s := pipelinetest.Serve(t, o)
	port := s.Addr().(*net.TCPAddr).Port
	book := &pipelinetest.LogBook{}
	nc, err := natsclient.Connect(t.Context(), natsclient.Options{URL: s.ClientURL(), User: "u", Password: "before", Log: book.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	tried := make(chan error, 1000)
	logged := nc.ErrorHandler()
	nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		logged(nc, sub, err)
		tried <- err
	})
	s.Shutdown()
	s.WaitForShutdown()
	changed := *o
	changed.Password, changed.Port = "after", port
	pipelinetest.Serve(t, &changed)
	for range 5 {
		select {
		case err := <-tried:
			if !errors.Is(err, nats.ErrAuthorization) {
				t.Errorf("%v, want %v", err, nats.ErrAuthorization)
			}
		case <-time.After(pipelinetest.Patience):
			t.Fatal("the client does not try again")
		}
	}
	if n := book.Lines("authorization violation"); n != 1 {
		t.Errorf("%d lines, want 1:\n%s", n, book)
	}
}
