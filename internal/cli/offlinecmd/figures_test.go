package offlinecmd_test

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/offlinecmd"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

const memoryTable = "task,length,model,accuracy,deviation,draws,units\nSynthetic,30,eusn,1,0,2,50\nSynthetic,90,eusn,0.5,0.125,2,50\n"

func TestOfflineFigures(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	table := clitest.Write(t, filepath.Join(dir, "m.csv"), memoryTable)
	args := []string{"offline", "paper", "figures", "--quick", "--draws", "1", "--memory", table, "--output", out}
	var r struct {
		Out     string
		Figures []offlinecmd.FigureResult
	}
	clitest.Must(t, append(args, "--json", "--threads", "1")...).Parse(t, &r)
	if len(r.Figures) != 4 || r.Out != out {
		t.Fatalf("summary %+v", r)
	}
	first := map[string][]byte{}
	for i, f := range r.Figures {
		cells := 4 * 4 * 4
		want := []offlinecmd.FigureResult{{Rows: 4 * 3 * 801}, {Rows: cells, Checked: cells}, {Rows: cells, Checked: cells}, {Rows: 2}}[i]
		if f.Figure != i+1 || f.Rows != want.Rows || f.Checked != want.Checked || f.Failed != "" || len(f.Files) != 3 {
			t.Errorf("figure %d: %+v", i+1, f)
		}
		for _, path := range f.Files {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			first[path] = data
			switch filepath.Ext(path) {
			case ".png":
				if img, err := png.Decode(bytes.NewReader(data)); err != nil || img.Bounds().Dx() < 600 {
					t.Errorf("%s: %v", path, err)
				}
			case ".svg":
				if !bytes.Contains(data, []byte("</svg>")) || bytes.Contains(data, []byte("NaN")) {
					t.Errorf("%s is no whole picture", path)
				}
			case ".csv":
				if n := bytes.Count(data, []byte("\n")); n != f.Rows+1 {
					t.Errorf("%s has %d lines, want %d", path, n, f.Rows+1)
				}
			}
		}
	}
	if left := clitest.Leftovers(t, out, fileNames(first)...); len(first) != 12 || len(left) > 0 {
		t.Errorf("%d files, and %v", len(first), left)
	}

	// A second run over existing files, with other threads: the same bytes.
	if r := clitest.Must(t, append(args, "--threads", "3")...); !strings.Contains(r.Out, "Proposition 2 holds in all 64") {
		t.Errorf("summary:\n%s", r.Out)
	}
	for path, want := range first {
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs the second time (%v)", path, err)
		}
	}
}

func fileNames(files map[string][]byte) []string {
	var all []string
	for path := range files {
		all = append(all, filepath.Base(path))
	}
	return all
}

func TestOfflineFiguresRefusals(t *testing.T) {
	dir := t.TempDir()
	for says, args := range map[string][]string{
		"want figures from 1 to 4": {"--only", "5"},
		"each once":                {"--only", "1,1"},
		"figure 4 needs --memory":  {"--only", "4"},
		"--threads -1":             {"--threads", "-1"},
		"draws = 0":                {"--draws", "0"},
		"every = 101":              {"--quick", "--stride", "101"},
	} {
		clitest.Exec(t, t.Context(), append([]string{"offline", "paper", "figures", "--output", filepath.Join(dir, "never")}, args...)...).Want(t, cli.ExitUsage, says)
	}
	bad := clitest.Write(t, filepath.Join(dir, "bad.csv"), "task,length\n")
	clitest.Exec(t, t.Context(), "offline", "paper", "figures", "--memory", bad, "--output", filepath.Join(dir, "never")).Want(t, cli.ExitIntegrity, bad, `no column "model"`, "try: eusn-stream offline paper memory")
	clitest.Exec(t, t.Context(), "offline", "paper", "figures", "--memory", filepath.Join(dir, "none"), "--output", filepath.Join(dir, "never")).Want(t, cli.ExitFailure, "none", "try: eusn-stream offline paper memory")
	clitest.Exec(t, t.Context(), "offline", "paper", "figures", "--only", "1", "--output", filepath.Join(dir, "a", "b")).Want(t, cli.ExitFailure, "try: mkdir -p")
	clitest.Exec(t, t.Context(), "offline", "paper", "figures", "--only", "1", "--output", bad).Want(t, cli.ExitFailure, bad)
	if left := clitest.Leftovers(t, dir, "bad.csv"); len(left) > 0 {
		t.Errorf("refused commands left %v behind", left)
	}

	// The input table is not overwritten.
	own := clitest.Write(t, filepath.Join(dir, "fig4-memory.csv"), memoryTable)
	clitest.Exec(t, t.Context(), "offline", "paper", "figures", "--only", "4", "--memory", own, "--output", dir).Want(t, cli.ExitFailure, "is an input of this command")
	if text, err := os.ReadFile(own); err != nil || string(text) != memoryTable {
		t.Errorf("the table was destroyed (%v)", err)
	}
}
