package fleet_test

import (
	"context"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/fleet"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// TestServerAway: after a server outage, a process answers each question once.
func TestServerAway(t *testing.T) {
	t.Parallel()
	o := natsserver.Options{Dir: t.TempDir(), Port: natsserver.RandomPort, Log: pipelinetest.Log(t)}
	s, err := natsserver.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	url := s.URL()
	o.Port = pipelinetest.Port(t, s)
	first, err := natsclient.Connect(t.Context(), natsclient.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	nc, err := natsclient.Another(t.Context(), first, "status")
	if err != nil {
		t.Fatal(err)
	}
	answers, err := fleet.Serve(nc, fleet.Self{Job: job, Source: fleet.NewStageSource(new(pipeline.Counters))})
	if err != nil {
		t.Fatal(err)
	}
	defer answers.Close()
	heard := func() bool {
		asked, err := fleet.Ask(context.Background(), first, job, nil)
		return err == nil && len(asked.Processes) == 1 && asked.Strange == 0
	}
	pipelinetest.Until(t, "an answer", heard)
	s.Close()
	if heard() {
		t.Error("an answer without a server")
	}
	if s, err = natsserver.Start(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	pipelinetest.Until(t, "an answer of who was there before", heard)
}
