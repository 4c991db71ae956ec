package fleet_test

import (
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/fleet"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// A login that is revoked is a line in the log, not one for each attempt to connect.
func TestRevokedLogin(t *testing.T) {
	t.Parallel()
	o := &server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, JetStream: true, StoreDir: t.TempDir(), Username: "u", Password: "before"}
	s := pipelinetest.Serve(t, o)
	changed := *o
	changed.Password, changed.Port = "after", s.Addr().(*net.TCPAddr).Port
	book := &pipelinetest.LogBook{}
	nc, err := natsclient.Connect(t.Context(), natsclient.Options{URL: s.ClientURL(), User: "u", Password: "before", Log: book.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	tried := make(chan struct{}, 1000)
	logged := nc.ErrorHandler()
	nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		logged(nc, sub, err)
		tried <- struct{}{}
	})
	answers, err := fleet.Serve(nc, fleet.Self{Job: job, Source: fleet.NewStageSource(new(pipeline.Counters)), Log: book.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(answers.Close)
	s.Shutdown()
	s.WaitForShutdown()
	pipelinetest.Serve(t, &changed)
	for range 5 {
		select {
		case <-tried:
		case <-time.After(pipelinetest.Patience):
			t.Fatalf("the client does not try again, or nobody logs it:\n%s", book)
		}
	}
	if n := book.Lines("authorization violation"); n != 1 {
		t.Errorf("%d lines, want 1:\n%s", n, book)
	}
}
