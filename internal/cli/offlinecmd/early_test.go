package offlinecmd_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/offline"
)

func TestDecideCommands(t *testing.T) {
	archive, dir := clitest.ImportTiny(t, 1), t.TempDir()
	model := filepath.Join(dir, "m.safetensors")
	retrain := []string{"train", archive, "--output", model, "--bank", "tiny"}
	r := clitest.Must(t, append(retrain, "--early", "4", "--decide", "--decide-loss", "0.1")...)
	if !strings.Contains(r.Out, "before their end, all in the mean after a share of ") {
		t.Errorf("retrain says\n%s%s", r.Out, r.ErrOut)
	}
	if inspect := clitest.Must(t, "model", "show", model).Out; !strings.Contains(inspect, "early      a prefix is decided where its class changes until the end with a probability of at most 0.") {
		t.Errorf("inspect says\n%s", inspect)
	}
	evaluate := []string{"evaluate", "--model", model, archive}
	if out := clitest.Must(t, evaluate...).Out; !strings.Contains(out, "decided early: ") {
		t.Errorf("evaluate says\n%s", out)
	}
	var ev offline.Evaluation
	clitest.Must(t, append(evaluate, "--json")...).Parse(t, &ev)
	if e := ev.Early.Decided; e == nil || e.Sequences != ev.Labeled || !(e.Earliness > 0 && e.Earliness <= 1) {
		t.Errorf("--json: %+v", ev.Early.Decided)
	}
	for _, c := range []struct {
		flags []string
		code  int
		want  string
	}{
		{[]string{"--decide"}, cli.ExitFailure, "--early N"},
		{[]string{"--decide-loss", "0.1"}, cli.ExitUsage, "want it with --decide"},
		{[]string{"--decide", "--early", "4", "--decide-loss", "1"}, cli.ExitUsage, "above 0 and below 1"},
		{[]string{"--decide", "--early", "4", "--shard", "1/2"}, cli.ExitUsage, "train in one job"},
		{[]string{"--decide", "--early", "4", "--policy", "endless"}, cli.ExitFailure, "no end"},
	} {
		clitest.Exec(t, t.Context(), append(retrain, c.flags...)...).Want(t, c.code, c.want)
	}
}
