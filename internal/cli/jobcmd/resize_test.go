package jobcmd_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// A job gets more partitions, then fewer, with the obstacles; its next stage continues,
// with any number.
func TestJobResize(t *testing.T) {
	t.Parallel()
	archive, dir := clitest.ImportTiny(t, 2), t.TempDir()
	model, data := filepath.Join(dir, "m.safetensors"), filepath.Join(dir, "data")
	clitest.Must(t, "train", archive, "--output", model, "--members", "2", "--units", "8")
	stage := clitest.Start(t, "reading sensors.*", "run", "--model", model, "--dir", data, "--port", "-1", "--partitions", "2")
	url := clitest.ServerURL.FindString(stage.Messages())
	clitest.Must(t, "replay", archive, "--nats-url", url, "--streams", "5", "--rows", "16")
	clitest.Await(t, url, 24, 0)
	at := []string{"job", "resize", "--model", model, "--dir", data}
	clitest.Exec(t, t.Context(), "job", "resize", "3", "--model", model, "--nats-url", url).
		Want(t, cli.ExitFailure, "workers of the job are running", "stop the workers")
	stage.Stop(t).Want(t, cli.ExitOK)

	for says, wrong := range map[string][]string{
		"0 partitions: want a number of 1 to": {"0"},
		"5000 partitions: want":               {"5000"},
		"PARTITIONS is missing":               {},
		"--abandon takes neither":             {"--abandon", "3"},
	} {
		clitest.Exec(t, t.Context(), append(at, wrong...)...).Want(t, cli.ExitUsage, says)
	}
	clitest.Exec(t, t.Context(), append(at, "3", "--job", "nosuch")...).Want(t, cli.ExitFailure, `"nosuch"`, "--job")
	if out := clitest.Must(t, append(at, "5", "--dry-run")...).Out; !strings.Contains(out, "2 partitions now, 5 then") {
		t.Errorf("the plan is %q", out)
	}
	clitest.Must(t, "job", "resize", "--abandon", "--dir", data) // no change is in progress
	other := filepath.Join(dir, "other.safetensors")
	clitest.Must(t, "train", archive, "--output", other, "--members", "2", "--units", "9")
	var now operate.Resized
	clitest.Exec(t, t.Context(), "job", "resize", "5", "--model", other, "--dir", data).Want(t, cli.ExitOtherModel, "--model")
	clitest.Must(t, append(at, "5", "--dry-run", "--json")...).Parse(t, &now)
	if now.Step != "" || now.Partitions != 2 {
		t.Errorf("with another model, the change has begun: %+v", now)
	}
	for _, to := range []string{"5", "1"} {
		clitest.Must(t, append(at, to, "--json")...).Parse(t, &now)
	}
	if now.Partitions != 1 || now.Generation != 2 || now.Step != "" {
		t.Errorf("the job is %+v", now)
	}
	clitest.Exec(t, t.Context(), "run", "--model", model, "--dir", data, "--port", "-1", "--partitions", "2").Want(t, cli.ExitFailure, "partition(1,1)", "job resize")
	stage = clitest.Start(t, "reading sensors.*", "run", "--model", model, "--dir", data, "--port", "-1")
	url = clitest.ServerURL.FindString(stage.Messages())
	clitest.Must(t, "replay", archive, "--nats-url", url, "--streams", "5", "--rows", "16", "--split", "train")
	clitest.Await(t, url, 48, 0)
	if out := clitest.Must(t, "state", "verify", "--model", model, "--nats-url", url).Out; !strings.Contains(out, ": equal up to") {
		t.Errorf("state verify says %q", out)
	}
	stage.Stop(t).Want(t, cli.ExitOK, "24 predictions committed")
}
