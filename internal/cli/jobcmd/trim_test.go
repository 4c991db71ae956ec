package jobcmd_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// awaitAnswers waits until a job has made a number of predictions.
func awaitAnswers(t *testing.T, url, job string, want uint64) {
	t.Helper()
	var got uint64
	for end := time.Now().Add(pipelinetest.Patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var all []admin.PartitionStatus
		clitest.Must(t, "status", "--partitions", "--nats-url", url, "--job", job, "--json").Parse(t, &all)
		got = 0
		for _, p := range all {
			got += p.Outs
		}
		if got >= want {
			return
		}
	}
	t.Fatalf("job %s has made %d predictions, want %d", job, got, want)
}

// Input contained in a stopped job's states is removed, except young input, input
// missing from a recording, and input that another job needs.
func TestJobTrim(t *testing.T) {
	t.Parallel()
	archive, dir := clitest.ImportTiny(t, 2), t.TempDir()
	model, data, recording := filepath.Join(dir, "m.safetensors"), filepath.Join(dir, "data"), filepath.Join(dir, "recording")
	clitest.Must(t, "train", archive, "--output", model, "--members", "2", "--units", "8")
	stage := clitest.Start(t, "reading sensors.*", "run", "--model", model, "--dir", data, "--port", "-1", "--partitions", "1")
	url := clitest.ServerURL.FindString(stage.Messages())
	clitest.Must(t, "replay", archive, "--nats-url", url, "--streams", "5", "--rows", "16")
	clitest.Await(t, url, 24, 0)
	clitest.Must(t, "record", "--model", model, "--nats-url", url, "--output", recording, "--until", "now")
	clitest.Must(t, "replay", archive, "--nats-url", url, "--streams", "5", "--rows", "16", "--split", "train")
	clitest.Await(t, url, 48, 0)
	second := clitest.Start(t, "reading the input of job eusn", "run", "--model", model, "--nats-url", url, "--job", "green", "--input-job", "eusn")
	awaitAnswers(t, url, "green", 48)
	second.Stop(t).Want(t, cli.ExitOK)
	stage.Stop(t).Want(t, cli.ExitOK)

	at := func(more ...string) []string { return append([]string{"job", "trim", "--dir", data}, more...) }
	for says, wrong := range map[string][]string{
		"--min-age -1s: want 0s": {"--min-age", "-1s"},
		"--interval 1ms: want":   {"--interval", "1ms"},
		"without --interval":     {"--interval", "1h", "--dry-run"},
	} {
		clitest.Exec(t, t.Context(), at(wrong...)...).Want(t, cli.ExitUsage, says)
	}
	clitest.Exec(t, t.Context(), at("--job", "nosuch")...).Want(t, cli.ExitFailure, `"nosuch"`, "--job")
	clitest.Exec(t, t.Context(), at("--ignore-job", "gren")...).Want(t, cli.ExitFailure, `"gren"`, "those that do are eusn, green", "eusn-stream doctor")
	clitest.Exec(t, t.Context(), at("--job", "green")...).Want(t, cli.ExitFailure, "no input of its own", "eusn-stream job trim --job")
	clitest.Exec(t, t.Context(), at("--recording", dir)...).Want(t, cli.ExitFailure, "no file of a recording", "--recording")
	clitest.Exec(t, t.Context(), at("--recording", filepath.Join(dir, "none"))...).Want(t, cli.ExitFailure, "none", "--recording")

	var d admin.Trimmed
	if r := clitest.Must(t, at()...); !strings.Contains(r.Out, "EUSN-IN: 0 messages removed") || !strings.Contains(r.Out, "younger than 24h0m0s") {
		t.Errorf("of young input: %s", r.Out)
	}
	clitest.Must(t, at("--min-age", "0s", "--dry-run", "--json")...).Parse(t, &d)
	if d.Begins != d.Last+1 || d.First != 1 || d.Removed != d.Last {
		t.Errorf("a dry run: %+v", d)
	}
	all := d.Last
	r := clitest.Must(t, at("--min-age", "0s", "--recording", recording)...)
	if want := "the slowest is recording " + recording; !strings.Contains(r.Out, want) || !strings.Contains(r.ErrOut, "power failure") {
		t.Errorf("beside a recording, %q is not said:\n%s%s", want, r.Out, r.ErrOut)
	}
	clitest.Must(t, at("--min-age", "0s", "--json", "--recording", recording)...).Parse(t, &d)
	if d.First < 2 || d.First > all || d.Removed != 0 || d.Begins != d.First {
		t.Errorf("what the recording lacks is removed: %+v", d)
	}
	clitest.Must(t, at("--min-age", "0s", "--json")...).Parse(t, &d)
	if d.Begins != all+1 || d.Removed == 0 {
		t.Errorf("nothing needs it, and it stays: %+v", d)
	}
	stage = clitest.Start(t, "reading sensors.*", "run", "--model", model, "--dir", data, "--port", "-1")
	url = clitest.ServerURL.FindString(stage.Messages())
	clitest.Must(t, "replay", archive, "--nats-url", url, "--streams", "5", "--rows", "16")
	clitest.Await(t, url, 72, 0)
	stage.Stop(t).Want(t, cli.ExitOK)
}
