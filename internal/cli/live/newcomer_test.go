package live_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// typed is what a newcomer types, the previous answer, and what the answer must be now.
type typed struct {
	line, before string
	code         int
	says         string // a part of the output or of the messages
}

// beforeRun is typed in an empty folder with a recording, p.csv.
var beforeRun = []typed{
	{"train p.csv", "unknown command; did you mean tail", cli.ExitOK, "next: eusn-stream evaluate"},
	{"evaluate p.csv --model model.safetensors", "unknown command", cli.ExitOK, "accuracy"},
	{"predict p.csv --model model.safetensors", "unknown command", cli.ExitOK, "predictions.jsonl"},
	{"import p.csv", "unknown command", cli.ExitOK, "wrote p.parquet"},
	{"offline retrain p.csv", "parquet: file is damaged, exit 5", cli.ExitOK, "next: eusn-stream evaluate"},
	{"offline import p.csv --force", "name it as the train or test file", cli.ExitOK, "wrote p.parquet"},
	{"offline evaluate p.parquet --model model.safetensors", "unknown command p.parquet", cli.ExitOK, "accuracy"},
	{"start", "did you mean state", cli.ExitUsage, "try: eusn-stream run"},
	{"serve", "did you mean service", cli.ExitUsage, "try: eusn-stream run"},
	{"fit p.csv", "unknown command", cli.ExitUsage, "try: eusn-stream train"},
	{"logs", "unknown command", cli.ExitUsage, "try: eusn-stream tail"},
	{"init", "unknown command", cli.ExitUsage, "try: eusn-stream config init"},
	{"offline train p.csv", "unknown command", cli.ExitUsage, "try: eusn-stream train"},
	{"models", "did you mean model", cli.ExitUsage, "try: eusn-stream model list"},
	{"jobs", "did you mean job", cli.ExitUsage, "try: eusn-stream job list"},
	{"run --model none.safetensors", "reservoir: load model: open ...", cli.ExitFailure, "none.safetensors"},
	{"run --natsurl x", "unknown flag, no suggestion", cli.ExitUsage, "try: eusn-stream run --nats-url"},
	{"run --port 80x", "strconv.ParseInt: parsing \"80x\": invalid syntax", cli.ExitUsage, "want a whole number"},
	{"tail -f --since 1h --bogus", "unknown shorthand", cli.ExitUsage, "unknown flag --bogus"},
	{"run -v", "unknown shorthand", cli.ExitUsage, "try: EUSN_LOG_LEVEL=debug eusn-stream run"},
	{"predict", "requires at least 1 arg(s), only received 0", cli.ExitUsage, "an argument is missing: want FILES"},
	{"import p.csv --dry-run --force", "unknown flag", cli.ExitOK, "nothing was written"},
	{"help exit-codes --json", "text", cli.ExitOK, "\"code\": 64"},
	{"run --alarm-rules novel", "unknown flag", cli.ExitConfig, "want rules with a text each"},
	{"run -m none.safetensors", "unknown shorthand", cli.ExitFailure, "none.safetensors"},
	{"demo --train-series 40 --test-series 40 --members 2 --units 8", "clear, ends with proof", cli.ExitOK, "equal"},
	{"config init", "ok", cli.ExitOK, "wrote eusn-stream.yaml"},
}

// besideRun is typed without flags next to a stage with an embedded server.
var besideRun = []typed{
	{"status", "works", cli.ExitOK, "eusn: "},
	{"tail --since 1h", "works", cli.ExitOK, ""},
	{"model list", "works", cli.ExitOK, "active"},
	{"job trim --dry-run", "data directory is in use", cli.ExitOK, "0 messages would be removed"},
	{"replay p.csv", "works", cli.ExitOK, "acknowledged"},
	{"job streams", "unknown command", cli.ExitOK, "pump-1  "},
	{"predict p.csv --output q.jsonl", "open model.safetensors: no such file", cli.ExitOK, "model model.safetensors of job eusn"},
	{"record --output rec --until now --since start", "open model.safetensors: no such file", cli.ExitOK, ""},
	{"job backfill --since 24h --output old.jsonl", "open model.safetensors: no such file", cli.ExitOK, "predictions"},
	{"partitions", "data directory is in use", cli.ExitUsage, "try: eusn-stream status --partitions"},
	{"state show 0", "data directory is in use", cli.ExitFailure, "snapshot"},
	{"alarms list", "no alarm log", cli.ExitFailure, "try: eusn-stream"},
	{"labels list", "no output", cli.ExitOK, "no labels"},
	{"model shadow list", "works", cli.ExitOK, "no shadows"},
	{"status --partitions", "data directory is in use", cli.ExitOK, "PARTITION"},
	{"deadletter list", "data directory is in use", cli.ExitOK, "no dead letters"},
	{"job list", "unknown command", cli.ExitOK, "eusn"},
	{"job trim --dry-run", "data directory is in use", cli.ExitOK, ""},
	{"doctor", "a new job eusn would take messages", cli.ExitOK, ""},
	{"model show", "accepts 1 arg", cli.ExitOK, "readout"},
}

// What newcomers type first leads to the work or to the right command. With -v the test prints
// the previous and the present answer of each line.
func TestNewcomer(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	rows := strings.Split(strings.TrimSpace(strings.ReplaceAll(clitest.RecordingCSV(2, 400), "m ", "pump-")), "\n")
	for i, row := range rows { // a label for each half of a stream
		label := ",a"
		switch {
		case i == 0:
			label = ",label"
		case i > len(rows)/2:
			label = ",b"
		}
		rows[i] = row + label
	}
	clitest.Write(t, filepath.Join(dir, "p.csv"), strings.Join(rows, "\n")+"\n")
	answer := func(all []typed) {
		for _, c := range all {
			args := strings.Fields(c.line)
			if args[0] == "train" || args[0] == "offline" && args[1] == "retrain" {
				args = append(args, "--members", "2", "--units", "5")
			}
			r := clitest.Exec(t, t.Context(), args...)
			text := r.Out + r.ErrOut
			if r.Code != c.code || !strings.Contains(text, c.says) {
				t.Errorf("%s: exit code %d, want %d and %q:\n%s", c.line, r.Code, c.code, c.says, text)
			}
			lines := strings.Split(strings.TrimSpace(text), "\n")
			t.Logf("%s\n  before: %s\n  now:    %s", c.line, c.before, strings.Join(lines[max(0, len(lines)-2):], " | "))
		}
	}
	answer(beforeRun)
	stage := clitest.Start(t, "reading sensors.*", "run", "--port", "-1", "--partitions", "2")
	if err := os.Rename("model.safetensors", "first.safetensors"); err != nil {
		t.Fatal(err)
	}
	answer(besideRun)
	for _, args := range [][]string{{"tail", "--stream", ""}, {"explain", "--stream", "pump"}, {"state", "show", ""}} {
		if r := clitest.Must(t, append([]string{"__complete"}, args...)...); !strings.Contains(r.Out, "pump-0\npump-1\n") || !strings.HasSuffix(r.Out, ":4\n") {
			t.Errorf("%q completes to %q, want the streams of the job", args, r.Out)
		}
	}
	stage.Stop(t)
}
