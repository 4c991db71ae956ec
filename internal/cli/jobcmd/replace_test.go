package jobcmd_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// A job gets the network of a second job that has read its input from the beginning:
// its predictions continue on its own subjects, and a worker with the previous model is
// refused.
func TestJobReplace(t *testing.T) {
	t.Parallel()
	archive, dir := clitest.ImportTiny(t, 2), t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	blue, green, data := in("blue.safetensors"), in("green.safetensors"), in("data")
	clitest.Must(t, "train", archive, "--output", blue, "--members", "2", "--units", "8")
	clitest.Must(t, "train", archive, "--output", green, "--members", "3", "--units", "6", "--seed", "9")
	first := clitest.Start(t, "reading sensors.*", "run", "--model", blue, "--dir", data, "--port", "-1", "--partitions", "3")
	url := clitest.ServerURL.FindString(first.Messages())
	second := clitest.Start(t, "reading the input of job eusn", "run", "--model", green, "--nats-url", url, "--job", "green", "--input-job", "eusn")
	clitest.Must(t, "replay", archive, "--nats-url", url, "--streams", "5", "--rows", "16")
	clitest.Await(t, url, 24, 0)
	clitest.Exec(t, t.Context(), "job", "replace", "--with", "green", "--nats-url", url).Want(t, cli.ExitFailure, "workers of the job are running", "stop the workers")
	if out := clitest.Must(t, "job", "replace", "--with", "green", "--dry-run", "--nats-url", url).Out; !strings.Contains(out, "nothing was changed") {
		t.Errorf("the plan is %q", out)
	}
	awaitAnswers(t, url, "green", 24)
	second.Stop(t).Want(t, cli.ExitOK)
	first.Stop(t).Want(t, cli.ExitOK)

	at := []string{"job", "replace", "--dir", data}
	for says, wrong := range map[string][]string{
		"--with is missing":    {},
		"--abandon goes alone": {"--abandon", "--with", "green"},
	} {
		clitest.Exec(t, t.Context(), append(at, wrong...)...).Want(t, cli.ExitUsage, says)
	}
	clitest.Exec(t, t.Context(), append(at, "--with", "nosuch")...).Want(t, cli.ExitFailure, `"nosuch"`)
	clitest.Exec(t, t.Context(), append(at, "--with", "eusn")...).Want(t, cli.ExitFailure, `job "eusn" does not read the input of job "eusn"`)
	clitest.Exec(t, t.Context(), append(at, "--job", "green", "--with", "eusn")...).Want(t, cli.ExitFailure, "only the job whose input it is")
	clitest.Must(t, append(at, "--abandon")...) // no change is in progress
	var plan, now struct {
		operate.Replaced
		Bytes int
	}
	clitest.Must(t, append(at, "--with", "green", "--dry-run", "--json")...).Parse(t, &plan)
	clitest.Must(t, append(at, "--with", "green", "--json")...).Parse(t, &now)
	if plan.Network == now.Network || plan.Bytes == 0 || now.Step != "" || now.Generation != 1 || now.Cut == 0 || now.With != "green" {
		t.Errorf("the plan was %+v, and now the job is %+v", plan, now)
	}
	if out := clitest.Must(t, append(at, "--with", "green")...).Out; !strings.Contains(out, "job eusn has the network of job green") {
		t.Errorf("the second time it says %q", out)
	}
	clitest.Exec(t, t.Context(), "run", "--model", blue, "--dir", data, "--port", "-1").Want(t, cli.ExitOtherModel, "another network", "model show active")
	first = clitest.Start(t, "reading sensors.*", "run", "--model", green, "--dir", data, "--port", "-1")
	url = clitest.ServerURL.FindString(first.Messages())
	clitest.Must(t, "model", "show", "active", "--output", in("active.safetensors"), "--nats-url", url)
	clitest.Must(t, "replay", archive, "--nats-url", url, "--streams", "5", "--rows", "16", "--split", "train")
	clitest.Await(t, url, 48, 0)
	if out := clitest.Must(t, "state", "verify", "--model", green, "--nats-url", url).Out; !strings.Contains(out, ": equal up to") {
		t.Errorf("the states say %q", out)
	}
	first.Stop(t).Want(t, cli.ExitOK, "24 predictions committed, 0 dead letters")
}
