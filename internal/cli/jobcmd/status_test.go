package jobcmd_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/fleet"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// The status of a job: with its worker, gateway and alarms, and after all have stopped.
func TestStatus(t *testing.T) {
	t.Parallel()
	archive, dir := clitest.ImportTiny(t, 2), t.TempDir()
	model := filepath.Join(dir, "m.safetensors")
	clitest.Must(t, "train", archive, "--output", model, "--members", "2", "--units", "8")
	srv := pipelinetest.Server(t, natsserver.Options{Port: natsserver.RandomPort})
	url := srv.URL()
	status := func(args ...string) clitest.Result {
		return clitest.Exec(t, t.Context(), append([]string{"status", "--nats-url", url}, args...)...)
	}
	status().Want(t, cli.ExitFailure, `there is no job "eusn"`, "this server has no jobs", "try: eusn-stream run")
	if r := status("--all"); r.Code != cli.ExitOK || !strings.Contains(r.ErrOut, "this server has no jobs") {
		t.Errorf("%+v", r)
	}

	stage := clitest.Start(t, "reading sensors.*", "run", "--model", model, "--nats-url", url, "--partitions", "2")
	gateway := clitest.Start(t, "HTTP at", "gateway", "--model", model, "--nats-url", url, "--http-listen", "127.0.0.1:0", "--outbox", filepath.Join(dir, "outbox"))
	alarms := clitest.Start(t, "alarm rules of job eusn: 0", "alarms", "run", "--nats-url", url)
	clitest.Must(t, "replay", archive, "--nats-url", url, "--streams", "5", "--rows", "16", "--json")
	clitest.Await(t, url, 24, 0)
	var rep fleet.Report
	pipelinetest.Until(t, "all processes in a report", func() bool {
		rep = fleet.Report{}
		clitest.Must(t, "status", "--nats-url", url, "--json").Parse(t, &rep)
		return len(rep.Processes) == 3 && rep.Lag.Messages == 0 && rep.Processes[2].Stage.Totals.Predictions == 24
	})
	if rep.Level == fleet.Problem || rep.Processes[0].Watch == nil || rep.Processes[1].Gateway == nil || rep.Processes[2].Stage.Model.Name != "m.safetensors" || !rep.Alarms.Kept {
		t.Errorf("%+v", rep)
	}
	if r := status(); r.Code != cli.ExitOK || !strings.HasPrefix(r.Out, "eusn: 2 partitions, 1 worker, up to date: last sample answered ") || !strings.Contains(r.Out, "m.safetensors") {
		t.Errorf("%+v", r)
	}
	if r := status("--all"); r.Code != cli.ExitOK || !strings.Contains(r.Out, "eusn: 2 partitions, 1 worker, up to date") {
		t.Errorf("%+v", r)
	}
	alarms.Stop(t)
	gateway.Stop(t)
	stage.Stop(t).Want(t, cli.ExitOK, "24 predictions committed")

	status().Want(t, cli.ExitFailure, "no worker runs", "try: eusn-stream run -c FILE")
	var all []fleet.Report
	r := status("--all", "--json")
	r.Parse(t, &all)
	if r.Code != cli.ExitFailure || len(all) != 1 || all[0].Level != fleet.Problem || !strings.HasPrefix(all[0].Verdict, "2 partitions, 0 workers: no worker runs") {
		t.Errorf("%+v", r)
	}
	srv.Close()
	status().Want(t, cli.ExitUnreachable)
}
