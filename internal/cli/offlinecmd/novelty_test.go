package offlinecmd_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/offline"
)

// A model of one class alone says of everything else that it is novel; --novelty says the
// same beside the classes.
func TestNoveltyCommands(t *testing.T) {
	archive, dir := clitest.ImportTiny(t, 1), t.TempDir()
	model, predictions := filepath.Join(dir, "m.safetensors"), filepath.Join(dir, "p.parquet")
	retrain := []string{"offline", "retrain", "--archive", archive, "--out", model, "--bank", "tiny"}
	out := clitest.Must(t, append(retrain, "--healthy-only=slow", "--false-alarms", "0.1")...).Out
	if want := "novelty    from 12 sequences in 12 groups; a share of 0.1 of sequences like these will be novel; p-values from 0.0769\n"; !strings.Contains(out, want) {
		t.Errorf("retrain does not say %q:\n%s", want, out)
	}
	if inspect := clitest.Must(t, "model", "inspect", model).Out; !strings.Contains(inspect, "novelty    11 dimensions, from 12 sequences; novel at a p-value of at most 0.1; its class is whether it is novel\n") {
		t.Errorf("inspect says\n%s", inspect)
	}
	evaluate := []string{"offline", "evaluate", "--model", model, "--archive", archive, "--predictions", predictions}
	out = clitest.Must(t, evaluate...).Out
	if want := "of other classes: 12 of 12 are novel; AUROC 1.0000\n"; !strings.Contains(out, want) {
		t.Errorf("evaluate does not say %q:\n%s", want, out)
	}
	var ev offline.Evaluation
	clitest.Must(t, append(evaluate, "--json")...).Parse(t, &ev)
	if n := ev.Novelty; n == nil || n.Known != 12 || n.Found != 12 || n.Level < .0999 || n.Level > .1001 {
		t.Errorf("--json: %+v", ev.Novelty)
	}
	r := clitest.Must(t, append(retrain, "--novelty")...)
	if want := "warning: nothing will be novel: that needs at least 99 training sequences, or --false-alarms 0.04"; !strings.Contains(r.Out+r.ErrOut, want) {
		t.Errorf("retrain --novelty does not say %q:\n%s%s", want, r.Out, r.ErrOut)
	}
	for _, c := range []struct {
		flags []string
		want  string
	}{
		{[]string{"--false-alarms", "1/day"}, "want it with --novelty or --healthy-only"},
		{[]string{"--novelty", "--false-alarms", "1/fortnight"}, "want a share of predictions between 0 and 1"},
		{[]string{"--novelty", "--false-alarms", "1"}, "want a share of predictions between 0 and 1"},
		{[]string{"--novelty", "--predictions-per-day", "0"}, "want a positive number"},
		{[]string{"--novelty", "--shard", "1/2"}, "train in one job"},
	} {
		clitest.Exec(t, t.Context(), append(retrain, c.flags...)...).Want(t, cli.ExitUsage, c.want)
	}
	clitest.Exec(t, t.Context(), append(retrain, "--healthy-only")...).Want(t, cli.ExitIntegrity, "say which is the healthy one")
	clitest.Exec(t, t.Context(), append(retrain, "--healthy-only=slow", "--false-alarms", "1/month", "--predictions-per-day", "24")...).
		Want(t, cli.ExitIntegrity, "needs at least 719 training sequences")
}
