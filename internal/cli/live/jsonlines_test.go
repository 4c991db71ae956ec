package live_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// With log.format json everything on standard error is a line of JSON: the log,
// messages for people, errors and hints.
func TestMessagesAsJSON(t *testing.T) {
	archive, dir := clitest.ImportTiny(t, 1), t.TempDir()
	model := filepath.Join(dir, "m")
	clitest.Must(t, "train", archive, "--output", model, "--members", "1", "--units", "5")
	conf := clitest.Write(t, filepath.Join(dir, "c.yaml"), "log: {format: json}\nstage: {partitions: 2}\nserver: {port: -1, dir: "+filepath.Join(dir, "data")+"}\n")
	stage := clitest.Start(t, "reading sensors.*", "run", "-c", conf, "--model", model, "--metrics-listen", "127.0.0.1:0")
	url := clitest.ServerURL.FindString(stage.Messages())
	clitest.Must(t, "replay", "-c", conf, archive, "--nats-url", url).Records(t)
	clitest.Must(t, "status", "--partitions", "-c", conf, "--nats-url", url).Records(t)
	r := stage.Stop(t)
	r.Want(t, cli.ExitOK)
	said := map[string]bool{}
	for _, one := range r.Records(t) {
		msg := one["msg"].(string)
		said[msg[:min(7, len(msg))]] = true
	}
	for _, begin := range []string{"embedd", "metrics", "reading", "stage i", "stopped"} {
		found := false
		for s := range said {
			found = found || strings.HasPrefix(s, begin)
		}
		if !found {
			t.Errorf("no record begins with %q:\n%s", begin, r.ErrOut)
		}
	}

	for name, r := range map[string]clitest.Result{
		"no such model": clitest.Exec(t, t.Context(), "run", "-c", conf, "--model", filepath.Join(dir, "none")),
		"wrong value":   clitest.Exec(t, t.Context(), "run", "-c", conf, "--model", model, "--non-finite", "maybe"),
		"no server":     clitest.Exec(t, t.Context(), "doctor", "-c", conf, "--nats-url", "nats://127.0.0.1:1"),
	} {
		all := r.Records(t)
		if last := all[len(all)-1]; last["level"] != "ERROR" || last["exit_code"] != float64(r.Code) || last["try"] == nil || r.Code == 0 {
			t.Errorf("%s: code %d, last record %v", name, r.Code, last)
		}
	}

	t.Setenv("EUSN_LOG_FORMAT", "json")
	for _, args := range [][]string{
		{"bogus"}, {"run", "--bogus"}, {"run", "-c", filepath.Join(dir, "none")}, {"train", archive, "--output", model, "--engine", "gpu-3xtf32"},
		{"train", archive, "--output", model, "--members", "1", "--units", "5", "--progress", "plain"},
	} {
		if all := clitest.Exec(t, t.Context(), args...).Records(t); len(all) == 0 {
			t.Errorf("%v says nothing", args)
		}
	}
}
