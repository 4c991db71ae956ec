package main

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/offline"
)

// smallDemo is a demo of a few seconds.
func smallDemo(dir string, more ...string) []string {
	return append([]string{"demo", "--dir", dir, "--train", "40", "--test", "40", "--members", "3", "--units", "10", "--streams", "15"}, more...)
}

func TestDemo(t *testing.T) {
	dir := t.TempDir()
	var r demoReport
	must(t, smallDemo(dir, "--json", "--quiet")...).parse(t, &r)
	if r.Series != 40 || r.Equal != 40 || r.Live != 40 || r.Streams != 15 || r.LiveRows != 40*offline.DefaultMachineSamples {
		t.Errorf("demo --json gives %+v", r)
	}
	if left := leftovers(t, dir, "machine.parquet", "machine.safetensors"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	out := must(t, smallDemo(dir, "--dataset", filepath.Join(dir, "machine.parquet"), "--progress", "none")...).out
	if !strings.Contains(out, "40 of 40 predictions equal the offline evaluation") || !strings.Contains(out, "inner-race") {
		t.Errorf("demo says:\n%s", out)
	}
}

// Under every policy the stage predicts what the evaluation says, all of it:
// where series follow each other on a stream and where a stream goes on, early
// predictions, and those of windows that overlap.
func TestDemoPolicies(t *testing.T) {
	for _, c := range []struct {
		policy, more         string
		sequences, all, rows int
	}{
		{"marked", "--early 100", 40, 40 + 3*40, 320},
		{"gap", "--gap 300ms --early 150", 40, 40 + 2*40, 320},
		{"window", "--length 64 --hop 32 --early 24", 40 * 19, 40 * (19 + 20), 640}, // early at the 26 multiples of 24 but 6 where a window ends
		{"count", "--length 100 --early 30", 40 * 6, 40 * (6 + 19), 640},            // and early once after the last
		{"endless", "--early 100", 40 * 6, 40 * 6, 640},
	} {
		t.Run(c.policy, func(t *testing.T) {
			var r demoReport
			must(t, smallDemo(t.TempDir(), append(strings.Fields(c.more), "--policy", c.policy, "--json", "--quiet")...)...).parse(t, &r)
			if r.Series != 40 || r.Sequences != c.sequences || r.Live != c.all || r.Equal != c.all || r.LiveRows != uint64(40*c.rows) {
				t.Errorf("%d series, %d sequences, %d predictions, %d equal, %d rows; want 40, %d, %d, as many, %d", r.Series, r.Sequences, r.Live, r.Equal, r.LiveRows, c.sequences, c.all, 40*c.rows)
			}
			if r.Accuracy < .6 { // chance is .25; the figures of banks of a useful size are docs/policies.md's
				t.Errorf("accuracy %.3f", r.Accuracy)
			}
		})
	}
	// Continuous streams with labelled intervals, recorded.
	var r demoReport
	must(t, smallDemo(t.TempDir(), "--continuous", "--policy", "window", "--length", "80", "--hop", "40", "--json", "--quiet")...).parse(t, &r)
	if r.Series != 8 || r.Live < 40*300/40-8*2 || r.Live != r.Equal || r.Live != r.Sequences || r.Mixed < 8*4 || r.Accuracy < .6 {
		t.Errorf("continuous: %d streams, %d predictions, %d equal, %d of %d with several labels, accuracy %.3f", r.Series, r.Live, r.Equal, r.Mixed, r.Sequences, r.Accuracy)
	}
	exec(t, t.Context(), "demo", "--continuous").want(t, exitUsage, "wants --policy window or count")
	exec(t, t.Context(), "demo", "--policy", "window", "--length", "50", "--hop", "7").want(t, exitUsage, "length 50 is not a multiple of hop 7")
	exec(t, t.Context(), "demo", "--policy", "marked", "--length", "50").want(t, exitUsage, "--length is a parameter of --policy")
}

// What the README says that the demo ends with is what it ends with, on every
// engine.
func TestDemoAsInReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	out := strings.TrimSpace(must(t, "demo", "--dir", t.TempDir(), "--progress", "none").out)
	lines := strings.Split(out, "\n")
	for _, line := range lines[len(lines)-2:] {
		if !strings.Contains(string(readme), "\n    "+line+"\n") {
			t.Errorf("demo ends with %q, which the README does not say", line)
		}
	}
}

// The comparison must see a single bit, a wrong class, and a missing prediction.
func TestDemoComparison(t *testing.T) {
	want := []offline.Prediction{
		{ID: "test-0", Class: 1, Scores: []float32{0.5}},
		{ID: "test-1", Class: 0, Scores: []float32{-0.5}, Probability: 0.75, Flags: codec.FlagFlat},
	}
	live := func() []codec.Prediction {
		return []codec.Prediction{{Class: 1, Scores: []float32{0.5}}, {Class: 0, Scores: []float32{-0.5}, Probability: 0.75, Flags: codec.FlagFlat}}
	}
	if d := compare(live(), want); len(d) != 0 {
		t.Fatalf("equal predictions differ: %v", d)
	}
	for name, change := range map[string]func(p []codec.Prediction){
		"bit":     func(p []codec.Prediction) { p[1].Scores[0] = math.Nextafter32(p[1].Scores[0], 1) },
		"class":   func(p []codec.Prediction) { p[1].Class = 1 },
		"missing": func(p []codec.Prediction) { p[1] = codec.Prediction{Class: -1} },
		"flag":    func(p []codec.Prediction) { p[1].Flags = 0 },
		"chance":  func(p []codec.Prediction) { p[1].Probability = math.Nextafter32(p[1].Probability, 1) },
		"width":   func(p []codec.Prediction) { p[1].Scores = append(p[1].Scores, 0) },
	} {
		p := live()
		change(p)
		if d := compare(p, want); len(d) != 1 || !strings.HasPrefix(d[0], "test-1") {
			t.Errorf("%s: differences %v, want one of test-1", name, d)
		}
	}
	var a app
	var out, errOut bytes.Buffer
	a.stdout, a.stderr = &out, &errOut
	p := live()
	p[0].Scores[0] = 7
	ev := &offline.Evaluation{Classes: []string{"a", "b"}, Predictions: want}
	if code := a.report(a.demoResult(&liveResult{predictions: p, seconds: 1}, ev, time.Second)); code != exitIntegrity {
		t.Errorf("exit code %d of a demo with a difference, want %d", code, exitIntegrity)
	}
	if !strings.Contains(errOut.String(), "DIFFER") || !strings.Contains(out.String(), "1 of 2 predictions equal") {
		t.Errorf("a difference is not told loudly:\n%s%s", out.String(), errOut.String())
	}
}

// Ctrl-C at each step of the demo.
func TestDemoInterrupted(t *testing.T) {
	for _, c := range []struct {
		at   string
		kept []string
		says string
	}{
		{"1/5", nil, "nothing was kept"},
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
			w := &stopAt{text: c.at, cancel: cancel, w: &errOut}
			code := run(ctx, smallDemo(dir), &out, w)
			result{code, out.String(), errOut.String()}.want(t, exitInterrupted, "interrupted:", c.says)
			if left := leftovers(t, dir); !slices.Equal(left, c.kept) {
				t.Errorf("in the directory: %v, want %v", left, c.kept)
			}
			for _, f := range c.kept {
				if strings.HasSuffix(f, ".parquet") {
					if _, err := offline.ReadArchive(filepath.Join(dir, f)); err != nil {
						t.Errorf("the kept archive is not whole: %v", err)
					}
				}
			}
		})
	}
}

// With --streams 0 each series is a stream of its own; by silence, only a
// stream's last series ends by a mark, and times tell the others.
func TestSeriesSourceDeals(t *testing.T) {
	d := &offline.Dataset{Channels: []string{"x"}, Classes: []string{"a"}}
	for range 5 {
		d.Series = append(d.Series, offline.Series{Split: offline.Test, Values: make([]float32, 3)})
	}
	streams := map[string]bool{}
	for src := newSeriesSource(d, offline.Test, 0); ; {
		it, err := src.Next()
		if err != nil {
			break
		}
		streams[it.Stream] = true
		if !it.End || it.Times != nil {
			t.Errorf("a series without an end: %+v", it)
		}
	}
	if len(streams) != 5 {
		t.Errorf("%d streams, want 5", len(streams))
	}
	src := newSeriesSource(d, offline.Test, 2)
	src.bySilence(time.Millisecond, time.Second)
	last := map[string]int64{}
	for k := range 5 {
		it, err := src.Next()
		if err != nil || len(it.Times) != 3 || it.Times[2]-it.Times[0] != int64(2*time.Millisecond) {
			t.Fatalf("series %d: %+v, %v", k, it, err)
		}
		if before, ok := last[it.Stream]; ok && it.Times[0]-before != int64(time.Second+time.Millisecond) {
			t.Errorf("series %d begins %v after the one before", k, time.Duration(it.Times[0]-before))
		}
		last[it.Stream] = it.Times[2]
		if it.End != (k >= 3) {
			t.Errorf("series %d: end %v", k, it.End)
		}
	}
}
