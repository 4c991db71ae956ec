package offlinecmd_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/offlinecmd"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

func TestOfflineMemory(t *testing.T) {
	dir := t.TempDir()
	table, out := filepath.Join(dir, "m.csv"), filepath.Join(dir, "m.jsonl")
	short := []string{"--configurations", "3", "--draws", "2", "--models", "eusn,resn", "--output", out}
	args := append([]string{"offline", "paper", "memory", "--lengths", "30,45", "--curves", table}, short...)
	var r struct{ Points []offlinecmd.MemoryPoint }
	clitest.Must(t, append(args, "--json")...).Parse(t, &r)
	if len(r.Points) != 4 {
		t.Fatalf("%d points, want 2 lengths x 2 models", len(r.Points))
	}
	for i, p := range r.Points {
		if p.Task != "Synthetic" || p.Length != []int{30, 45}[i/2] || p.Model != []string{"eusn", "resn"}[i%2] || p.Draws != 2 {
			t.Errorf("point %d: %+v", i, p)
		}
	}
	text, err := os.ReadFile(table)
	if err != nil || strings.Count(string(text), "\n") != 5 || !strings.HasPrefix(string(text), "task,length,model,accuracy") {
		t.Errorf("%v, CSV:\n%s", err, text)
	}
	if r := clitest.Must(t, append(args, "--resume")...); strings.Count(r.Out, "\n") != 3 || !strings.Contains(r.Out, "Synthetic  45") {
		t.Errorf("table:\n%s", r.Out)
	}

	// A point's own command reproduces the point.
	var one struct{ Points []offlinecmd.MemoryPoint }
	words := strings.Fields(r.Points[3].Command)[1:]
	clitest.Must(t, append(words, "--json", "--output", filepath.Join(dir, "one"))...).Parse(t, &one)
	if len(one.Points) != 1 || one.Points[0].Accuracy != r.Points[3].Accuracy {
		t.Errorf("%v gives %+v, want %+v", words, one.Points, r.Points[3])
	}

	archive := clitest.ImportTiny(t, 2)
	clitest.Must(t, append([]string{"offline", "paper", "memory", archive, "--lengths", "70", "--resume", "--json"}, short...)...).Parse(t, &r)
	if len(r.Points) != 2 || r.Points[0].Task != "Tiny" || r.Points[0].Length != 70 {
		t.Errorf("memory of an archive: %+v", r.Points)
	}
	clitest.Exec(t, t.Context(), "offline", "paper", "memory", archive, "--lengths", "50", "--output", filepath.Join(dir, "x")).
		Want(t, cli.ExitFailure, "length 50, want 60", "other --lengths")
	clitest.Exec(t, t.Context(), "offline", "paper", "memory", "--lengths", "0").Want(t, cli.ExitUsage, "--lengths [0]")

	// The curves do not overwrite their own results.
	link := filepath.Join(dir, "link.csv")
	if err := os.Symlink(out, link); err != nil {
		t.Fatal(err)
	}
	before := clitest.Read(t, out)
	clitest.Exec(t, t.Context(), append(append(args, "--resume"), "--curves", filepath.Join(dir, ".", "m.jsonl"))...).Want(t, cli.ExitUsage, "--curves and --output are both")
	clitest.Exec(t, t.Context(), append(append(args, "--resume"), "--curves", link)...).Want(t, cli.ExitFailure, "is an input of this command")
	if !bytes.Equal(before, clitest.Read(t, out)) {
		t.Error("the results file has changed")
	}
}
