package main

import (
	"bytes"
	"context"
	"errors"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/offline/figures"
)

const memoryTable = "task,length,model,accuracy,deviation,draws,units\nSynthetic,30,eusn,1,0,2,50\nSynthetic,90,eusn,0.5,0.125,2,50\n"

func TestOfflineFigures(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	table := write(t, filepath.Join(dir, "m.csv"), memoryTable)
	args := []string{"offline", "figures", "--quick", "--draws", "1", "--memory", table, "--out", out}
	var r struct {
		Out     string
		Figures []figureResult
	}
	must(t, append(args, "--json", "--threads", "1")...).parse(t, &r)
	if len(r.Figures) != 4 || r.Out != out {
		t.Fatalf("summary %+v", r)
	}
	first := map[string][]byte{}
	for i, f := range r.Figures {
		cells := 4 * 4 * 4
		want := []figureResult{{Rows: 4 * 3 * 801}, {Rows: cells, Checked: cells}, {Rows: cells, Checked: cells}, {Rows: 2}}[i]
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
	if left := leftovers(t, out, fileNames(first)...); len(first) != 12 || len(left) > 0 {
		t.Errorf("%d files, and %v", len(first), left)
	}

	// Again, over the files that are there, with other threads: the same bytes.
	if r := must(t, append(args, "--threads", "3")...); !strings.Contains(r.out, "Proposition 2 holds in all 64") {
		t.Errorf("summary:\n%s", r.out)
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
		"belong together":          {"--only", "4"},
		"--threads -1":             {"--threads", "-1"},
		"draws = 0":                {"--draws", "0"},
		"every = 101":              {"--quick", "--every", "101"},
	} {
		exec(t, t.Context(), append([]string{"offline", "figures", "--out", filepath.Join(dir, "never")}, args...)...).want(t, exitUsage, says)
	}
	bad := write(t, filepath.Join(dir, "bad.csv"), "task,length\n")
	exec(t, t.Context(), "offline", "figures", "--memory", bad, "--out", filepath.Join(dir, "never")).want(t, exitIntegrity, bad, `no column "model"`, "try: eusn-stream offline memory")
	exec(t, t.Context(), "offline", "figures", "--memory", filepath.Join(dir, "none"), "--out", filepath.Join(dir, "never")).want(t, exitFailure, "none", "try: eusn-stream offline memory")
	exec(t, t.Context(), "offline", "figures", "--only", "1", "--out", filepath.Join(dir, "a", "b")).want(t, exitFailure, "try: mkdir -p")
	exec(t, t.Context(), "offline", "figures", "--only", "1", "--out", bad).want(t, exitFailure, bad)
	if left := leftovers(t, dir, "bad.csv"); len(left) > 0 {
		t.Errorf("refused commands left %v behind", left)
	}

	// The table that is read is not drawn over.
	own := write(t, filepath.Join(dir, "fig4-memory.csv"), memoryTable)
	exec(t, t.Context(), "offline", "figures", "--only", "4", "--memory", own, "--out", dir).want(t, exitFailure, "what is being read")
	if text, err := os.ReadFile(own); err != nil || string(text) != memoryTable {
		t.Errorf("the table was destroyed (%v)", err)
	}
}

// TestOfflineFiguresInterrupted: what is finished is whole, the rest is not
// there.
func TestOfflineFiguresInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out := filepath.Join(t.TempDir(), "out")
	a := &app{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}, progressMode: "none"}
	r := figuresRun{out: out, only: []int{1, 3, 2}, grid: figures.QuickGrid(1)}
	r.options.Threads, r.options.Progress = 1, func(done, _ int64, _ string) {
		if done == 2 {
			cancel()
		}
	}
	err := a.offlineFigures(ctx, r)
	var i *interrupted
	if !errors.As(err, &i) || !strings.Contains(err.Error(), "whole in "+out) {
		t.Fatalf("%v, want an interruption", err)
	}
	want := r.files(1)
	for k := range want {
		want[k] = filepath.Base(want[k])
	}
	if left := leftovers(t, out, want...); len(left) > 0 {
		t.Errorf("an interrupted run left %v", left)
	}
	for _, path := range r.files(1) {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// TestOfflineFiguresBroken: a proposition that does not hold ends in exit code
// 6 and a summary that says so.
func TestOfflineFiguresBroken(t *testing.T) {
	f, err := figures.NewLyapunov(t.Context(), figures.QuickGrid(1), figures.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f.Rows[5].Upper = -1
	var out, messages bytes.Buffer
	a := &app{stdout: &out, stderr: &messages, progressMode: "none"}
	r := figuresRun{out: t.TempDir()}
	broken := f.Check()
	result, err := r.finish(3, computed{figure: f, grid: &f.Grid, checked: len(f.Rows), least: -1, most: 1, broken: broken})
	if err != nil {
		t.Fatal(err)
	}
	code := a.report(a.endFigures(r, []figureResult{result}, broken))
	if code != exitTolerance || !strings.Contains(messages.String(), "does not hold at "+f.Rows[5].String()) || !strings.Contains(out.String(), "BROKEN") {
		t.Errorf("exit code %d\n%s%s", code, out.String(), messages.String())
	}
	if text, err := os.ReadFile(r.files(3)[0]); err != nil || !bytes.Contains(text, []byte(",false\n")) {
		t.Errorf("the CSV file does not mark the cell (%v)", err)
	}
}
