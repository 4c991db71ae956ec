package loop_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// labels add, list and export: a repeated label counts once, a correction replaces it,
// and a withdrawn label does not count.
func TestLabels(t *testing.T) {
	t.Parallel()
	url := pipelinetest.Server(t, natsserver.Options{Port: natsserver.RandomPort}).URL()
	at := func(args ...string) []string {
		return append(append([]string{"labels"}, args...), "--nats-url", url)
	}
	nobody := []string{"add", "--stream", "s", "--since", "1", "--until", "2", "--class", "c", "--job", "eusm"}
	clitest.Exec(t, t.Context(), at(nobody...)...).Want(t, cli.ExitFailure, `"eusm"`, "no jobs", "try: eusn-stream run")
	clitest.OnServer(t, url, func(js jetstream.JetStream) error {
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "EUSN-OUT", Subjects: []string{"eusn.out.*"}})
		return err
	})
	for _, args := range [][]string{nobody, {"list", "--job", "eusm"}, {"export", "--job", "eusm"}} {
		clitest.Exec(t, t.Context(), at(args...)...).Want(t, cli.ExitFailure, `"eusm"`, "the jobs here are: eusn", "try: eusn-stream labels "+args[0]+" --job eusn")
	}
	clitest.OnServer(t, url, func(js jetstream.JetStream) error {
		if _, err := js.Stream(t.Context(), "EUSM-LABELS"); !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Errorf("a job that does not exist has labels: %v", err)
		}
		return nil
	})
	if r := clitest.Must(t, at("list")...); r.Out != "" {
		t.Errorf("without labels it prints %q", r.Out)
	}
	of := []string{"add", "--stream", "pump 7", "--since", "2026-01-31T12:00:00.000000001Z", "--until", "1800000000000000000", "--who", "anna"}
	clitest.Must(t, at(append(of, "--class", "imbalance")...)...)
	clitest.Must(t, at(append(of, "--class", "healthy")...)...)
	clitest.Exec(t, t.Context(), at("add", "--stream", "p", "--since", "1700000000", "--until", "1700000060", "--class", "x")...).Want(t, cli.ExitUsage, "--since is 1700000000, which looks like s since 1970")
	sequence := []string{"add", "--stream", "p", "--seq", "1041", "--row", "39", "--who", "bert"}
	clitest.Must(t, at(append(sequence, "--class", `of, "two"`)...)...)
	if r := clitest.Must(t, at("list")...); !strings.HasPrefix(r.Out, `"pump 7"  2026-01-31T12:00:00.000000001Z to 2027-01-15T08:00:00Z  healthy  anna  20`) || strings.Count(r.Out, "\n") != 2 {
		t.Errorf("list prints\n%s", r.Out)
	}
	if r := clitest.Must(t, at("list", "--all", "--json", "--stream", "p")...); len(r.Lines(t)) != 1 || r.Lines(t)[0]["row"] != 39.0 {
		t.Errorf("list --json prints\n%s", r.Out)
	}
	if r := clitest.Must(t, at("export")...); !strings.HasPrefix(r.Out, "stream,from,to,seq,row,label,who,when\npump 7,2026-01-31T12:00:00.000000001Z,2027-01-15T08:00:00Z,,,healthy,anna,20") ||
		!strings.Contains(r.Out, "\np,,,1041,39,\"of, \"\"two\"\"\",bert,") {
		t.Errorf("export prints\n%s", r.Out)
	}
	clitest.Must(t, at(append(sequence, "--withdraw")...)...)
	if r := clitest.Must(t, at("list")...); strings.Count(r.Out, "\n") != 1 {
		t.Errorf("after a withdrawal:\n%s", r.Out)
	}
	if r := clitest.Must(t, at("list", "--all")...); strings.Count(r.Out, "\n") != 4 || !strings.Contains(r.Out, "seq 1041 row 39  (withdrawn)  bert") {
		t.Errorf("list --all prints\n%s", r.Out)
	}
	for says, args := range map[string][]string{
		"want --class, or --withdraw": of,
		"stream is empty":             {"add", "--since", "1", "--until", "2", "--class", "c"},
		`--since "noon"`:              {"add", "--stream", "s", "--since", "noon", "--until", "2", "--class", "c"},
		"a time and a later one":      {"add", "--stream", "s", "--since", "2", "--until", "1", "--class", "c"},
		"both times and a sequence":   {"add", "--stream", "s", "--since", "1", "--until", "2", "--seq", "3", "--row", "0", "--class", "c"},
		"--seq: want --row too":       {"add", "--stream", "s", "--seq", "3", "--class", "c"},
		"want --since or --seq":       {"add", "--stream", "s", "--class", "c"},
	} {
		clitest.Exec(t, t.Context(), at(args...)...).Want(t, cli.ExitUsage, says, "try:")
	}
	clitest.Exec(t, t.Context(), "labels", "list", "--nats-url", "nats://127.0.0.1:1").Want(t, cli.ExitUnreachable, "try:")
}
