package live_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// A second job with another model reads the messages of one replay: both predict all of
// it, the commands name the job with the input, and wrong commands are refused.
func TestSecondJobOnOneInput(t *testing.T) {
	t.Parallel()
	archive, dir := clitest.ImportTiny(t, 2), t.TempDir()
	blue, green := filepath.Join(dir, "blue.safetensors"), filepath.Join(dir, "green.safetensors")
	clitest.Must(t, "train", archive, "--output", blue, "--members", "2", "--units", "8")
	clitest.Must(t, "train", archive, "--output", green, "--members", "3", "--units", "6", "--seed", "9")
	first := clitest.Start(t, "reading sensors.*", "run", "--model", blue, "--dir", filepath.Join(dir, "data"), "--port", "-1", "--partitions", "4")
	url := clitest.ServerURL.FindString(first.Messages())
	clitest.Must(t, "replay", archive, "--nats-url", url, "--streams", "5", "--rows", "16")
	second := clitest.Start(t, "reading the input of job eusn", "run", "--model", green, "--nats-url", url, "--job", "green", "--input-job", "eusn")
	for _, job := range []string{"eusn", "green"} {
		got := 0
		for end := time.Now().Add(pipelinetest.Patience); got < 24 && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			got = len(clitest.Must(t, "tail", "--nats-url", url, "--job", job, "--since", "1h", "--json").Lines(t))
		}
		if got != 24 {
			t.Errorf("job %s has %d predictions, want 24", job, got)
		}
	}
	for job, says := range map[string]string{
		"eusn":  `job "eusn" takes messages on sensors.*, 4 partitions; its input is also read by job green, in any`,
		"green": `job "green" reads the input of job "eusn", which takes messages on sensors.*, 4 partitions, in any`,
		"other": `a new job "other" would take messages on sensors.*`,
	} {
		out := clitest.Must(t, "doctor", "--nats-url", url, "--job", job).Out
		if !strings.Contains(out, says) || job == "green" && strings.Contains(out, "GREEN-IN") {
			t.Errorf("doctor --job %s does not say %q:\n%s", job, says, out)
		}
	}
	run := func(args ...string) clitest.Result {
		return clitest.Exec(t, t.Context(), append([]string{"run", "--model", green, "--nats-url", url}, args...)...)
	}
	run("--job", "third", "--input-job", "green").Want(t, cli.ExitOtherModel, "set input.job to eusn", "try: eusn-stream doctor")
	run("--job", "green", "--input-job", "third").Want(t, cli.ExitOtherModel, `reads the input of job "eusn"`)
	run("--job", "green", "--input-job", "green").Want(t, cli.ExitConfig, "input.job", "another job")
	run("--job", "third", "--input-from", "now").Want(t, cli.ExitConfig, "input.from", "input.job with it")
	run("--job", "third", "--input-job", "eusn", "--input-from", "2026-01-31").Want(t, cli.ExitConfig, "input.from", "2026-01-31T08:00:00Z")
	clitest.Exec(t, t.Context(), "job", "resize", "8", "--model", blue, "--nats-url", url).Want(t, cli.ExitFailure, "job green", "several jobs read this input")
	second.Stop(t).Want(t, cli.ExitOK, "24 predictions committed, 0 dead letters")
	first.Stop(t).Want(t, cli.ExitOK, "24 predictions committed, 0 dead letters")
}
