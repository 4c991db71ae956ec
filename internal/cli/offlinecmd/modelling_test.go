package offlinecmd_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/offline/bench"
)

func TestModelling(t *testing.T) {
	archive, dir := clitest.ImportTiny(t, 1), t.TempDir()
	out := filepath.Join(dir, "m.jsonl")
	args := []string{"offline", "modelling", archive, "--configurations", "2", "--draws", "2", "--models", "eusn,deepesn", "--out", out}
	var first, again struct {
		Results  string
		Settings bench.Settings
		Modelled []bench.Modelled
	}
	clitest.Must(t, append(args, "--json")...).Parse(t, &first)
	if len(first.Modelled) != 4 || first.Results != out || first.Settings.Protocol != bench.Modelling {
		t.Fatalf("model --json gives %+v", first)
	}
	for i, m := range first.Modelled {
		if m.Model != []string{"eusn", "deepesn"}[i/2] || m.Input != (i%2 == 1) || m.Dataset != "Tiny" || m.Draws != 2 || m.RMSE <= 0 || m.Repeating <= 0 {
			t.Errorf("result %d: %+v", i, m)
		}
	}
	clitest.Exec(t, t.Context(), args...).Want(t, cli.ExitFailure, "exists", "--resume")
	before, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	table := clitest.Must(t, append(args, "--resume")...).Out
	for _, want := range []string{"data set", "Tiny", "deepesn", "yes", "±"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
	if after, _ := os.ReadFile(out); string(after) != string(before) {
		t.Error("resuming a finished run changed its file")
	}
	clitest.Exec(t, t.Context(), "offline", "paper", archive, "--resume", "--out", out).Want(t, cli.ExitFailure, "cannot be mixed", "another --out")

	// The command of a result gives that result.
	words := strings.Fields(first.Modelled[3].Command)[1:]
	clitest.Must(t, append(words, "--json", "--out", filepath.Join(dir, "one"))...).Parse(t, &again)
	if len(again.Modelled) != 2 || again.Modelled[1].RMSE != first.Modelled[3].RMSE || again.Modelled[1].Selected != first.Modelled[3].Selected {
		t.Errorf("%v gives %+v, want %+v", words, again.Modelled, first.Modelled[3])
	}
}

// A recording of one long sequence is cut.
func TestModellingCSV(t *testing.T) {
	dir := t.TempDir()
	text := "stream,x\n"
	for i := range 200 {
		text += fmt.Sprintf("pump,%.4f\n", math.Sin(0.2*float64(i)))
	}
	recording := clitest.Write(t, filepath.Join(dir, "pump.csv"), text)
	args := []string{"offline", "modelling", recording, "--configurations", "8", "--draws", "2", "--models", "esn"}
	out := filepath.Join(dir, "m.jsonl")
	clitest.Exec(t, t.Context(), append(args, "--out", out)...).Want(t, cli.ExitFailure, "1 sequence(s), want at least 3", "--length")
	var r struct{ Modelled []bench.Modelled }
	clitest.Must(t, append(args, "--length", "20", "--out", out, "--json")...).Parse(t, &r)
	if len(r.Modelled) != 2 || r.Modelled[0].Dataset != "pump" || !strings.Contains(r.Modelled[0].Command, "pump.csv --length 20") {
		t.Fatalf("%+v", r.Modelled)
	}
	for _, m := range r.Modelled {
		if !(m.RMSE < m.Repeating) {
			t.Errorf("a sine is predicted no better than by repeating: %+v", m)
		}
	}
}

func TestModellingUsage(t *testing.T) {
	archive, out := clitest.ImportTiny(t, 2), filepath.Join(t.TempDir(), "r.jsonl")
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "at least 1 arg"},
		{[]string{"a", "--configurations", "101"}, "want 1 to 100"},
		{[]string{"a", "--models", "gru"}, `model "gru"`},
		{[]string{"a", "--threads", "-1"}, "--threads -1"},
		{[]string{"a", "--length", "1"}, "--length 1"},
		{[]string{"a", "--length", "9"}, "--length cuts sequences of CSV files"},
	} {
		clitest.Exec(t, t.Context(), append([]string{"offline", "modelling"}, c.args...)...).Want(t, cli.ExitUsage, c.says, "try: eusn-stream")
	}
	clitest.Exec(t, t.Context(), "offline", "paper", "a", "--protocol", "modelling").Want(t, cli.ExitUsage, `protocol "modelling"`)
	clitest.Exec(t, t.Context(), "offline", "modelling", archive, "--out", out).Want(t, cli.ExitFailure, "has 2 channels")
	if _, err := os.Stat(out); err == nil {
		t.Error("a run that could not begin left a results file")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	clitest.Exec(t, ctx, "offline", "modelling", clitest.ImportTiny(t, 1), "--out", out).Want(t, cli.ExitInterrupted, "interrupted:")
}
