package offlinecmd_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/offlinecmd"
	"github.com/eusn-stream/eusn-stream/internal/paper"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// paperReport is the output of offline paper tables --json.
type paperReport struct {
	Results  string
	Settings paper.Settings
	Cells    []offlinecmd.PaperRow
}

func TestPaper(t *testing.T) {
	archive, dir := clitest.ImportTiny(t, 2), t.TempDir()
	out := filepath.Join(dir, "r.jsonl")
	args := []string{"offline", "paper", "tables", archive, "--configurations", "12", "--draws", "2", "--output", out}

	var first, again paperReport
	clitest.Must(t, append(args, "--json")...).Parse(t, &first)
	if len(first.Cells) != 3 || first.Results != out || first.Settings.Protocol != paper.PaperExact {
		t.Fatalf("bench --json gives %+v", first)
	}
	for i, c := range first.Cells {
		if c.Model != paper.PaperModels[i] || c.Dataset != "Tiny" || c.Draws != 2 || c.Verdict != nil || !strings.Contains(c.Command, "--models "+c.Model) {
			t.Errorf("cell %+v", c)
		}
	}
	clitest.Exec(t, t.Context(), args...).Want(t, cli.ExitFailure, "exists", "--resume")
	other := clitest.ImportTiny(t, 1) // of the same name
	clitest.Exec(t, t.Context(), "offline", "paper", "tables", other, "--configurations", "12", "--output", out, "--resume").Want(t, cli.ExitFailure, "cannot be mixed", "try: another --output")
	clitest.Exec(t, t.Context(), "offline", "paper", "tables", archive, "--seed", "2", "--output", out, "--resume").Want(t, cli.ExitFailure, "cannot be mixed", "try: another --output")
	before, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	clitest.Must(t, append(args, "--json", "--resume")...).Parse(t, &again)
	if after, _ := os.ReadFile(out); string(after) != string(before) {
		t.Error("resuming a finished run changed its file")
	}
	if again.Cells[0].Accuracy != first.Cells[0].Accuracy {
		t.Errorf("resumed: %+v, first %+v", again.Cells[0], first.Cells[0])
	}
	clitest.Exec(t, t.Context(), append(args, "--resume", "--seed", "9")...).Want(t, cli.ExitFailure, "cannot be mixed", "another --output")

	// The command of a cell reproduces the cell.
	words := strings.Fields(first.Cells[1].Command)
	var one paperReport
	clitest.Must(t, append(words[1:], "--json", "--output", filepath.Join(dir, "one"))...).Parse(t, &one)
	if len(one.Cells) != 1 || one.Cells[0].Accuracy != first.Cells[1].Accuracy || one.Cells[0].Selected != first.Cells[1].Selected {
		t.Errorf("%v gives %+v, want %+v", words, one.Cells, first.Cells[1])
	}

	// Shorter lists are other lists, after the first; their results are in a separate file, and both files go into
	// one report, if each model comes from only one file.
	stopped := filepath.Join(dir, "stopped")
	short := []string{"offline", "paper", "tables", archive, "--list-length", "9", "--draws", "1", "--output", stopped, "--json", "--models"}
	clitest.Must(t, append(short, "deepesn")...).Parse(t, &one)
	if c := one.Cells[0]; c.Configurations != 9 || one.Settings.ListLength != 9 || !strings.Contains(c.Command, " --configurations 9 --list-length 9 ") {
		t.Errorf("settings %+v, cell %+v", one.Settings, c)
	}
	clitest.Exec(t, t.Context(), append(args, "--resume", "--list-length", "12")...).Want(t, cli.ExitFailure, "cannot be mixed", "another --output")
	clitest.Exec(t, t.Context(), "offline", "paper", "report", out, stopped, "--output", filepath.Join(dir, "report")).Want(t, 0)

	table := clitest.Must(t, append(args, "--resume")...).Out
	for _, want := range []string{"data set", "Tiny", "resn", "in paper's sd"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
}

// The command of a search with a budget repeats the completed part of the search.
func TestPaperTrained(t *testing.T) {
	archive, dir := clitest.ImportTiny(t, 2), t.TempDir()
	var first, again paperReport
	clitest.Must(t, "offline", "paper", "tables", archive, "--models", "gru", "--configurations", "2", "--draws", "1", "--epochs", "2",
		"--budget", "1h", "--json", "--output", filepath.Join(dir, "a")).Parse(t, &first)
	c := first.Cells[0]
	if c.Model != "gru" || c.Training.Epochs != 2 || !strings.Contains(c.Command, "--epochs 2 --budget 0") {
		t.Fatalf("%+v", c)
	}
	clitest.Must(t, append(strings.Fields(c.Command)[1:], "--json", "--output", filepath.Join(dir, "b"))...).Parse(t, &again)
	if d := again.Cells[0]; d.Accuracy != c.Accuracy || d.Selected != c.Selected || d.Parameters != c.Parameters {
		t.Errorf("%q gives %+v, want %+v", c.Command, d, c)
	}

	// A budget too small for one model: the other models have their rows, the exit code reports a missing result, and
	// a larger budget continues.
	args := []string{"offline", "paper", "tables", archive, "--models", "arnn,esn", "--configurations", "1", "--epochs", "2", "--draws", "1", "--resume", "--output", filepath.Join(dir, "c")}
	r := clitest.Exec(t, t.Context(), append(args, "--budget", "1ns")...)
	r.Want(t, cli.ExitFailure, `no result for data set "Tiny", arnn: no configuration was trained within the budget of 1ns`, "--resume and a larger --budget")
	if !strings.Contains(r.Out, "no result") || !strings.Contains(r.Out, "esn") {
		t.Errorf("table:\n%s", r.Out)
	}
	if r := clitest.Must(t, append(args, "--budget", "1h")...); strings.Contains(r.Out, "no result") {
		t.Errorf("with time enough:\n%s", r.Out)
	}
	table := filepath.Join(dir, "m.csv")
	r = clitest.Exec(t, t.Context(), "offline", "paper", "memory", "--lengths", "30", "--models", "esn,arnn", "--configurations", "1", "--draws", "1", "--budget", "1ns", "--curves", table, "--output", filepath.Join(dir, "d"))
	r.Want(t, cli.ExitFailure, `no result for data set "Synthetic T=30", arnn`)
	if text, err := os.ReadFile(table); err != nil || strings.Count(string(text), "\n") != 2 || !strings.Contains(r.Out, "no result") {
		t.Errorf("%v, CSV\n%s\ntable\n%s", err, text, r.Out)
	}
}

// A set of the paper's name with other contents is far from the paper's
// figures: the gate must close, and only with --gate.
func TestPaperGate(t *testing.T) {
	dir := t.TempDir()
	archive := filepath.Join(dir, "a.parquet")
	clitest.Must(t, "import", clitest.TinyData(t, "Adiac", 1, 24, 40), "--output", archive)
	args := []string{"offline", "paper", "tables", archive, "--models", "eusn", "--configurations", "12", "--draws", "2", "--output", filepath.Join(dir, "r.jsonl")}
	if r := clitest.Must(t, args...); !strings.Contains(r.Out, "NO") || !strings.Contains(r.Out, "0.442") {
		t.Errorf("the table says nothing of the paper:\n%s", r.Out)
	}
	clitest.Exec(t, t.Context(), append(args, "--resume", "--gate")...).Want(t, cli.ExitTolerance, "outside the tolerance of the paper: Adiac eusn")
	clitest.Must(t, "offline", "paper", "tables", archive, "--protocol", "bank", "--draws", "1", "--gate", "--output", filepath.Join(dir, "b.jsonl"))
}

func TestPaperInterrupted(t *testing.T) {
	archive, dir := clitest.ImportTiny(t, 1), t.TempDir()
	out := filepath.Join(dir, "r.jsonl")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	clitest.Exec(t, ctx, "offline", "paper", "tables", archive, "--output", out).Want(t, cli.ExitInterrupted, "interrupted:")
	clitest.Must(t, "offline", "paper", "tables", archive, "--output", out, "--resume", "--configurations", "200", "--draws", "1", "--models", "resn", "--draws", "10", "--quiet")
}

func TestPaperUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "an argument is missing"},
		{[]string{"a", "--protocol", "worst"}, "want one of"},
		{[]string{"a", "--configurations", "201"}, "want 1 to 200"},
		{[]string{"a", "--list-length", "140", "--configurations", "141"}, "want 1 to 140"},
		{[]string{"a", "--list-length", "0"}, "--list-length 0: want 1 to 200"},
		{[]string{"a", "--list-length", "201"}, "want 1 to 200"},
		{[]string{"a", "--protocol", "bank", "--list-length", "9"}, "--list-length"},
		{[]string{"a", "--protocol", "bank", "--least-rate", "1e-4"}, "--least-rate"},
		{[]string{"a", "--models", "rnn", "--least-rate", "0.2"}, "no configuration has a learning rate of 0.2"},
		{[]string{"a", "--draws", "0"}, "0 draws"},
		{[]string{"a", "--protocol", "bank", "--models", "esn"}, "has no search"},
		{[]string{"a", "--threads", "-1"}, "--threads -1"},
		{[]string{"a", "--models", "eusn,lstm"}, `model "lstm"`},
		{[]string{"a", "--models", "rnn", "--epochs", "0"}, `0 epochs`},
		{[]string{"a", "--protocol", "bank", "--budget", "1m"}, "--budget"},
	} {
		clitest.Exec(t, t.Context(), append([]string{"offline", "paper", "tables"}, c.args...)...).Want(t, cli.ExitUsage, c.says, "try: eusn-stream")
	}
	clitest.Exec(t, t.Context(), "offline", "paper", "tables", "none.parquet").Want(t, cli.ExitFailure, "no archive none.parquet", "try: eusn-stream import")
	out := filepath.Join(t.TempDir(), "r.jsonl")
	archive := clitest.ImportTiny(t, 1)
	clitest.Exec(t, t.Context(), "offline", "paper", "tables", archive, archive, "--output", out).Want(t, cli.ExitFailure, "listed twice")
	if _, err := os.Stat(out); err == nil {
		t.Error("a bench that could not begin left a results file")
	}
}
