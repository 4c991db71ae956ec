package jobcmd_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// doctor detects that an account allows too few consumers for the configured
// partitions, and names the limit to raise.
func TestDoctorConsumers(t *testing.T) {
	t.Parallel()
	s := pipelinetest.Serve(t, &server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, JetStream: true, StoreDir: t.TempDir()})
	limits := server.JetStreamAccountLimits{MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MaxConsumers: 40, MaxAckPending: -1}
	if err := s.GlobalAccount().UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": limits}); err != nil {
		t.Fatal(err)
	}
	conf := func(partitions string) string {
		return clitest.Write(t, filepath.Join(t.TempDir(), "c.yaml"), "stage:\n  partitions: "+partitions+"\nnats:\n  url: "+s.ClientURL()+"\n")
	}
	if out := clitest.Must(t, "doctor", "-c", conf("10")).Out; !strings.Contains(out, "ok       consumers EUSN-IN has 0 of at most 40.\n") {
		t.Errorf("doctor says of 10 partitions\n%s", out)
	}
	r := clitest.Exec(t, t.Context(), "doctor", "-c", conf("11"))
	r.Want(t, cli.ExitFailure, "1 problem(s) found")
	if !strings.Contains(r.Out, "problem  consumers EUSN-IN has 0 of at most 40; NATS stream EUSN-IN may have 40 consumers") || !strings.Contains(r.Out, "raise max_consumers of the account's JetStream limits to 44 or more") {
		t.Errorf("doctor says of 11 partitions\n%s", r.Out)
	}
	if r := clitest.Must(t, "config", "check", conf("300")); !strings.Contains(r.ErrOut, "note: stage.partitions: 300 partitions need up to 1200 consumers") {
		t.Errorf("config check says of 300 partitions\n%s", r.ErrOut)
	}
	if r := clitest.Must(t, "config", "check", conf("250")); strings.Contains(r.ErrOut, "consumers") {
		t.Errorf("config check says of 250 partitions\n%s", r.ErrOut)
	}
}
