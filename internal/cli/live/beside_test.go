package live_test

import (
	"os"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// besideRow is what a command without flags for its server and model does.
type besideRow struct {
	args            []string
	beside, stopped string // a part of what it prints beside the stage, and with the stage stopped; ! begins a refusal
}

const (
	noStage = "!no stage is running on eusn-data\ntry: eusn-stream run --model MODEL"
	noAlarm = "!the job has no alarm log"
)

var besideRows = []besideRow{
	{[]string{"status", "--partitions"}, "PARTITION", "PARTITION"},
	{[]string{"status"}, "eusn: 2 partitions, 1 worker, up to date", "!no worker runs"},
	{[]string{"doctor"}, "eusn-data is writable, and in use by a running stage", "no stage is running; of the embedded server's data: server eusn-stream"},
	{[]string{"doctor"}, `job "eusn" takes messages on sensors.*, 2 partitions`, `job "eusn" takes messages on sensors.*, 2 partitions`},
	{[]string{"doctor"}, "EUSN-IN holds", "EUSN-IN holds"},
	{[]string{"status", "--watch"}, "1 worker, up to date", noStage},
	{[]string{"state", "show", "0"}, "!has no snapshot yet", "partition 0 after input message"},
	{[]string{"state", "verify"}, "partition 1: equal", "partition 1: equal"},
	{[]string{"state", "export", "--output", "states"}, "of 2 partitions have a snapshot", "of 2 partitions have a snapshot"},
	{[]string{"explain", "--last", "--stream", "s00001"}, "the same scores, bit for bit", "the same scores, bit for bit"},
	{[]string{"deadletter", "list"}, "", ""},
	{[]string{"model", "list"}, "active", "active"},
	{[]string{"model", "show", "active"}, "m.safetensors", "m.safetensors"},
	{[]string{"labels", "add", "--stream", "s00001", "--seq", "3", "--row", "7", "--class", "slow"}, "stored", "stored"},
	{[]string{"labels", "list"}, "slow", "slow"},
	{[]string{"alarms", "list"}, noAlarm, noAlarm},
	{[]string{"job", "trim", "--dry-run"}, "0 messages would be removed", "0 messages would be removed"},
	{[]string{"job", "resize", "4", "--dry-run"}, "2 partitions now, 4 then", "2 partitions now, 4 then"},
	{[]string{"tail", "--since", "1h"}, "complete", "complete"},
	{[]string{"record", "--output", "recording", "--until", "now"}, "960 samples of 72 messages", "960 samples of 72 messages"},
	{[]string{"record", "verify", "recording"}, "equal what the log has", "equal what the log has"},
	{[]string{"job", "backfill", "--since", "start", "--output", "old.jsonl"}, "24 predictions of 72 messages", "24 predictions of 72 messages"},
	{[]string{"learn", "--store", "labeled", "--output", "learned"}, "!1 used", "!1 used"},
	{[]string{"replay", "", "--streams", "5", "--rows", "16", "--resume"}, "72 messages were already stored", noStage},
	{[]string{"job", "list"}, "eusn", "eusn"},
	{[]string{"job", "resize", "4"}, "!stop the workers", "4 partitions"},
	{[]string{"job", "delete"}, "!processes of job eusn are running", "EUSN-IN"},                      // shows what it would delete
	{[]string{"job", "delete", "--yes"}, "!processes of job eusn are running", "job eusn is deleted"}, // last: the job is gone
}

// Beside "run", each command about a job finds the embedded server by the data directory, and
// the model in the job's registry. With the stage stopped, it reads the data directory itself,
// or says that no stage is running. No command has a flag for its server, and the folder has a
// configuration file that "run" finds, too.
func TestCommandsBesideAStage(t *testing.T) {
	archive := clitest.ImportTiny(t, 2)
	t.Chdir(t.TempDir())
	clitest.Must(t, "train", archive, "--output", "m.safetensors", "--members", "2", "--units", "8")
	clitest.Write(t, "eusn-stream.yaml", "model: m.safetensors\nserver: {port: -1}\nstage: {partitions: 2}\n")
	stage := clitest.Start(t, "reading sensors.*", "run")
	if m := stage.Messages(); !strings.Contains(m, `msg="configuration file" path=eusn-stream.yaml`) {
		t.Errorf("run does not name its configuration file:\n%s", m)
	}
	clitest.Must(t, "replay", archive, "--streams", "5", "--rows", "16")
	clitest.Await(t, clitest.ServerURL.FindString(stage.Messages()), 24, 0)
	if err := os.Rename("m.safetensors", "moved"); err != nil {
		t.Fatal(err)
	}
	try := func(row besideRow, want string) {
		t.Helper()
		if row.args[0] == "replay" {
			row.args[1] = archive
		}
		want, refused := strings.CutPrefix(want, "!")
		r := clitest.Exec(t, t.Context(), row.args...)
		if (r.Code != cli.ExitOK) != refused || !strings.Contains(r.Out+r.ErrOut, want) {
			t.Errorf("%q: code %d, want %q:\n%s%s", row.args, r.Code, want, r.Out, r.ErrOut)
		}
	}
	for _, row := range besideRows {
		try(row, row.beside)
	}
	gateway := clitest.Start(t, "publishing to sensors.*", "gateway", "--http-listen", "127.0.0.1:0")
	gateway.Stop(t).Want(t, cli.ExitOK)
	stage.Stop(t).Want(t, cli.ExitOK)
	for _, name := range []string{"recording", "old.jsonl", "states", "labeled"} {
		if err := os.RemoveAll(name); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"tail"}, {"tail", "--since", "1h", "--follow"}, {"record", "--output", "recording"}, {"learn", "--store", "labeled", "--output", "learned", "--follow"}, {"alarms", "run"}} {
		try(besideRow{args: args}, noStage)
	}
	for _, row := range besideRows {
		try(row, row.stopped)
	}
	try(besideRow{args: []string{"status"}}, "!no job")
}
