package store

import (
	"context"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// A request ends with the connection; the next request uses the next connection.
func TestAttemptEndsWithConnection(t *testing.T) {
	dir := t.TempDir()
	srv := pipelinetest.Server(t, natsserver.Options{Dir: dir, Port: natsserver.RandomPort})
	nc, err := natsclient.Connect(t.Context(), natsclient.Options{URL: srv.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	l := Follow(nc)
	over := func(ctx context.Context) bool {
		<-ctx.Done() // its deadline, without another cause
		return ctx.Err() == context.Canceled
	}
	asked, cancel := l.Attempt(t.Context())
	defer cancel()
	if asked.Err() != nil {
		t.Fatal("an attempt on a good connection ends at once")
	}
	port := pipelinetest.Port(t, srv)
	srv.Close()
	if !over(asked) {
		t.Fatal("the connection is gone, the question still waits")
	}
	pipelinetest.Server(t, natsserver.Options{Dir: dir, Port: port})
	pipelinetest.Until(t, "reconnection", nc.IsConnected)
	again, cancel := l.Attempt(t.Context())
	defer cancel()
	if again.Err() != nil {
		t.Fatal("an attempt on the new connection ends at once")
	}
	nc.Close()
	if !over(again) {
		t.Fatal("the connection is closed, the question still waits")
	}
}
