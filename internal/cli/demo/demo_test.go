package demo_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/demo"
	"github.com/eusn-stream/eusn-stream/internal/cli/root"
	"github.com/eusn-stream/eusn-stream/internal/machine"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// smallDemo is a demo of a few seconds.
func smallDemo(dir string, more ...string) []string {
	return append([]string{"demo", "--dir", dir, "--train-series", "40", "--test-series", "40", "--members", "3", "--units", "10", "--streams", "15"}, more...)
}

func TestDemo(t *testing.T) {
	dir := t.TempDir()
	var r demo.Report
	clitest.Must(t, smallDemo(dir, "--json", "--quiet")...).Parse(t, &r)
	if r.Series != 40 || r.Equal != 40 || r.Live != 40 || r.Streams != 15 || r.LiveRows != 40*machine.DefaultSamples {
		t.Errorf("demo --json gives %+v", r)
	}
	if left := clitest.Leftovers(t, dir, "machine.parquet", "machine.safetensors"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	out := clitest.Must(t, smallDemo(dir, filepath.Join(dir, "machine.parquet"), "--progress", "none")...).Out
	if !strings.Contains(out, "40 of 40 predictions equal the offline evaluation") || !strings.Contains(out, "inner-race") {
		t.Errorf("demo says:\n%s", out)
	}
}

// Under every policy the stage makes exactly the predictions of the evaluation: if series follow each other on a
// stream, if a stream continues, early predictions, and predictions of overlapping windows.
func TestDemoPolicies(t *testing.T) {
	for _, c := range []struct {
		policy, more         string
		sequences, all, rows int
	}{
		{"marked", "--early 100 --decide --decide-loss 0.2", 40, 40 + 3*40, 320},
		{"gap", "--gap 300ms --early 150", 40, 40 + 2*40, 320},
		{"window", "--length 64 --hop 32 --early 24", 40 * 7, 40 * (7 + 8), 256}, // early at the 10 multiples of 24 but 2 at the end of a window
		{"count", "--length 100 --early 30", 40 * 6, 40 * (6 + 19), 640},         // and early once after the last
		{"endless", "--early 100", 40 * 6, 40 * 6, 640},
		{"count", "--length 40", 40 * 7, 40 * 7, 280}, // short sequences do not make the training long
	} {
		t.Run(c.policy, func(t *testing.T) {
			var r demo.Report
			clitest.Must(t, smallDemo(t.TempDir(), append(strings.Fields(c.more), "--policy", c.policy, "--json", "--quiet")...)...).Parse(t, &r)
			if r.Series != 40 || r.Sequences != c.sequences || r.Live != c.all || r.Equal != c.all || r.LiveRows != uint64(40*c.rows) {
				t.Errorf("%d series, %d sequences, %d predictions, %d equal, %d rows; want 40, %d, %d, as many, %d", r.Series, r.Sequences, r.Live, r.Equal, r.LiveRows, c.sequences, c.all, 40*c.rows)
			}
			if r.Accuracy < .5 { // chance is .25; the figures of banks of a useful size are docs/policies.md's
				t.Errorf("accuracy %.3f", r.Accuracy)
			}
		})
	}
	// Continuous streams with labeled intervals, recorded.
	var r demo.Report
	clitest.Must(t, smallDemo(t.TempDir(), "--continuous", "--policy", "window", "--length", "80", "--hop", "40", "--json", "--quiet")...).Parse(t, &r)
	if r.Series != 8 || r.Live < 40*300/40-8*2 || r.Live != r.Equal || r.Live != r.Sequences || r.Mixed < 8*4 || r.Accuracy < .5 {
		t.Errorf("continuous: %d streams, %d predictions, %d equal, %d of %d with several labels, accuracy %.3f", r.Series, r.Live, r.Equal, r.Mixed, r.Sequences, r.Accuracy)
	}
	clitest.Exec(t, t.Context(), "demo", "--continuous").Want(t, cli.ExitUsage, "requires --policy window or count")
	clitest.Exec(t, t.Context(), "demo", "--policy", "window", "--length", "50", "--hop", "7").Want(t, cli.ExitUsage, "length 50 is not a multiple of hop 7")
	clitest.Exec(t, t.Context(), "demo", "--policy", "marked", "--length", "50").Want(t, cli.ExitUsage, "--length is a parameter of --policy")
}

// The demo ends with the figures of the README, on every engine.
func TestDemoAsInReadme(t *testing.T) {
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	out := strings.TrimSpace(clitest.Must(t, "demo", "--dir", t.TempDir(), "--progress", "none").Out)
	lines := strings.Split(out, "\n")
	for _, line := range lines[len(lines)-2:] {
		if !strings.Contains(string(readme), "\n    "+line+"\n") {
			t.Errorf("demo ends with %q, which the README does not say", line)
		}
	}
}

// Ctrl-C at each step of the demo.
func TestDemoInterrupted(t *testing.T) {
	for _, c := range []struct {
		at   string
		kept []string
		says string
	}{
		{"1/5", nil, "no file was kept"},
		{"2/5", []string{"machine.parquet"}, "machine.parquet"},
		{"3/5", []string{"machine.parquet", "machine.safetensors"}, "machine.safetensors"},
		{"4/5", []string{"machine.parquet", "machine.safetensors"}, "machine.safetensors"},
		{"5/5", []string{"machine.parquet", "machine.safetensors"}, "machine.safetensors"},
	} {
		t.Run(c.at[:1], func(t *testing.T) {
			dir := t.TempDir()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var out, errOut bytes.Buffer
			w := &clitest.StopAt{Text: c.at, Cancel: cancel, W: &errOut}
			code := root.Run(ctx, smallDemo(dir), &out, w)
			clitest.Result{Code: code, Out: out.String(), ErrOut: errOut.String()}.Want(t, cli.ExitInterrupted, "interrupted:", c.says)
			if left := clitest.Leftovers(t, dir); !slices.Equal(left, c.kept) {
				t.Errorf("in the directory: %v, want %v", left, c.kept)
			}
			for _, f := range c.kept {
				if strings.HasSuffix(f, ".parquet") {
					if _, err := archive.ReadDataset(filepath.Join(dir, f)); err != nil {
						t.Errorf("the kept archive is not whole: %v", err)
					}
				}
			}
		})
	}
}
