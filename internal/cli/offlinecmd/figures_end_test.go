package offlinecmd

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/figures"
)

// TestOfflineFiguresInterrupted: finished files are whole, the rest is missing.
func TestOfflineFiguresInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out := filepath.Join(t.TempDir(), "out")
	a := &cli.App{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}, ProgressMode: "none"}
	r := figuresRun{out: out, only: []int{1, 3, 2}, grid: figures.QuickGrid(1)}
	r.options.Threads, r.options.Progress = 1, func(done, _ int64, _ string) {
		if done == 2 {
			cancel()
		}
	}
	err := makeFigures(ctx, a, r)
	var i *cli.Interrupted
	if !errors.As(err, &i) || !strings.Contains(err.Error(), "complete in "+out) {
		t.Fatalf("%v, want an interruption", err)
	}
	if left, err := os.ReadDir(out); err != nil || len(left) != len(r.files(1)) {
		t.Errorf("an interrupted run left %v (%v), want the files of figure 1", left, err)
	}
	for _, path := range r.files(1) {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// TestOfflineFiguresBroken: a failed proposition gives exit code 6 and is in the summary.
func TestOfflineFiguresBroken(t *testing.T) {
	f, err := figures.NewLyapunov(t.Context(), figures.QuickGrid(1), figures.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f.Rows[5].Upper = -1
	var out, messages bytes.Buffer
	a := &cli.App{Stdout: &out, Stderr: &messages, ProgressMode: "none"}
	r := figuresRun{out: t.TempDir()}
	broken := f.Check()
	result, err := r.finish(3, computed{figure: f, grid: &f.Grid, checked: len(f.Rows), least: -1, most: 1, broken: broken})
	if err != nil {
		t.Fatal(err)
	}
	code := a.Report(endFigures(a, r, []FigureResult{result}, broken))
	if code != cli.ExitTolerance || !strings.Contains(messages.String(), "does not hold at "+f.Rows[5].String()) || !strings.Contains(out.String(), "does NOT hold") {
		t.Errorf("exit code %d\n%s%s", code, out.String(), messages.String())
	}
	if text, err := os.ReadFile(r.files(3)[0]); err != nil || !bytes.Contains(text, []byte(",false\n")) {
		t.Errorf("the CSV file does not mark the cell (%v)", err)
	}
}
