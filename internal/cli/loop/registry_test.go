package loop_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// The models of a job from the command line: its worker has published the first;
// another readout is published, shown and retired, a worker with it uses the job's, and
// an unsuitable model is refused with the next step.
func TestModelRegistry(t *testing.T) {
	t.Parallel()
	archive, dir := clitest.ImportTiny(t, 2), t.TempDir()
	train := func(name string, more ...string) string {
		file := filepath.Join(dir, name)
		clitest.Must(t, append([]string{"train", archive, "--output", file, "--members", "2", "--units", "8"}, more...)...)
		return file
	}
	model, readout, network := train("m.safetensors"), train("r.safetensors", "--alpha", "77"), train("n.safetensors", "--seed", "77")
	stage := clitest.Start(t, "reading sensors.*", "run", "--json", "--model", model, "--dir", filepath.Join(dir, "data"), "--port", "-1", "--partitions", "2")
	url := clitest.ServerURL.FindString(stage.Messages())
	at := func(args ...string) []string {
		return append(append([]string{"model"}, args...), "--nats-url", url)
	}
	if r := clitest.Must(t, at("list")...); strings.Count(r.Out, "\n") != 1 || !strings.Contains(r.Out, "  active ") || !strings.Contains(r.Out, "m.safetensors (") {
		t.Errorf("list prints\n%s", r.Out)
	}
	print := strings.TrimSpace(clitest.Must(t, at("publish", readout, "--who", "anna", "--note", "hall 2")...).Out)
	if len(print) != 32 {
		t.Fatalf("publish prints %q", print)
	}
	if r := clitest.Must(t, at("publish", readout, "--who", "bert")...); strings.TrimSpace(r.Out) != print || !strings.Contains(r.ErrOut, "from anna") {
		t.Errorf("published again: %s%s", r.Out, r.ErrOut)
	}
	if lines := clitest.Must(t, at("list", "--json")...).Out; strings.Count(lines, `"active"`) != 2 || strings.Count(lines, `"hall 2"`) != 1 {
		t.Errorf("list --json prints\n%s", lines)
	}
	copied := filepath.Join(dir, "copy.safetensors")
	clitest.Must(t, at("show", "active", "--output", copied)...)
	want, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(copied); err != nil || string(got) != string(want) {
		t.Errorf("the copy has %d bytes, the model %d, %v", len(got), len(want), err)
	}
	if r := clitest.Must(t, at("show", print[:6])...); !strings.Contains(r.Out, print) || !strings.Contains(r.Out, "hall 2") || !strings.Contains(r.Out, "by anna") {
		t.Errorf("show prints\n%s", r.Out)
	}

	clitest.Exec(t, t.Context(), at("publish", network)...).Want(t, cli.ExitOtherModel, "n.safetensors does not fit", "try: ")
	clitest.Exec(t, t.Context(), at("publish", archive)...).Want(t, cli.ExitIntegrity, "try: ")
	clitest.Exec(t, t.Context(), at("show", "zz")...).Want(t, cli.ExitFailure, "no such model", "try: eusn-stream model list")
	clitest.Exec(t, t.Context(), at("retire", "active")...).Want(t, cli.ExitFailure, "the job predicts with it")
	clitest.Exec(t, t.Context(), at("list", "--job", "eusm")...).Want(t, cli.ExitFailure, `"eusm"`, "the jobs here are: eusn")
	// Promoted, taken back, and then marked.
	if r := clitest.Must(t, at("promote", print[:6], "--who", "anna")...); strings.Count(r.Out, "from input message") != 2 || !strings.Contains(r.ErrOut, "promotion 1: "+print+" predicts") {
		t.Errorf("promote prints\n%s%s", r.Out, r.ErrOut)
	}
	if r := clitest.Must(t, at("show", "active")...); !strings.Contains(r.Out, print) {
		t.Errorf("active after the promotion:\n%s", r.Out)
	}
	clitest.Exec(t, t.Context(), at("promote", print)...).Want(t, cli.ExitFailure, "answers already", "try: eusn-stream model list")
	clitest.Exec(t, t.Context(), at("retire", print)...).Want(t, cli.ExitFailure, "the job predicts with it")
	clitest.Must(t, "replay", archive, "--nats-url", url, "--streams", "3")
	clitest.Await(t, url, 24, 0)
	lines := 0
	for in := bufio.NewScanner(stage.Out); lines < 24 && in.Scan(); lines++ {
		var p clitest.Line
		if err := json.Unmarshal(in.Bytes(), &p); err != nil || p.Readout != print {
			t.Fatalf("prediction %s, want readout %s (%v)", in.Text(), print, err)
		}
	}
	if r := clitest.Must(t, at("rollback", "--who", "anna")...); !strings.Contains(r.ErrOut, "promotion 2: the readout that the job began with predicts") {
		t.Errorf("rollback prints\n%s%s", r.Out, r.ErrOut)
	}
	if r := clitest.Must(t, at("retire", print, "--dry-run")...); !strings.HasPrefix(r.Out, print+"  ready") || !strings.HasSuffix(r.ErrOut, "nothing was changed\n") {
		t.Errorf("retire --dry-run prints\n%s%s", r.Out, r.ErrOut)
	}
	clitest.Exec(t, t.Context(), at("retire", "active", "--dry-run")...).Want(t, cli.ExitFailure, "the job predicts with it")
	if r := clitest.Must(t, at("list")...); strings.Contains(r.Out, "retired") {
		t.Errorf("retire --dry-run retired an entry:\n%s", r.Out)
	}
	clitest.Must(t, at("retire", print, "--who", "anna", "--note", "wrong labels")...)
	clitest.Exec(t, t.Context(), at("promote", print)...).Want(t, cli.ExitFailure, "was retired by anna", "try: eusn-stream model list")
	if r := clitest.Must(t, at("list")...); strings.Count(r.Out, "retired") != 1 {
		t.Errorf("list prints\n%s", r.Out)
	}

	second := clitest.Start(t, "reading sensors.*", "run", "--model", readout, "--nats-url", url, "--partitions", "2")
	if !strings.Contains(second.Messages(), "job_model=m.safetensors") {
		t.Errorf("the second worker says\n%s", second.Messages())
	}
	second.Stop(t).Want(t, cli.ExitOK)
	stage.Stop(t).Want(t, cli.ExitOK)
}
