package goldens_test

import (
	"flag"

	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

var update = flag.Bool("update", false, "write the files of testdata")

// golden is a job.
type golden struct {
	name    string
	train   []string // flags of train
	numbers bool     // the training data have a number instead of a class
	run     []string // flags of run, and of commands that need the stage's settings
	input   input
	// operate is an operator's action after half of the input, while no stage runs.
	operate func(j *job)
}

var tiny = []string{"--bank", "tiny", "--sample-rate", "100Hz"}

var jobs = []golden{
	{name: "marked", train: append(tiny, "--novelty", "--coverage", "0.9", "--early", "10"), input: input{ends: true}},
	{name: "missing-held", train: append(tiny, "--novelty", "--false-alarms", "0.05", "--coverage", "0.9", "--coverage-by", "class"), run: []string{"--non-finite", "hold"}, input: input{ends: true, missing: true}},
	{name: "missing-zero", train: tiny, run: []string{"--non-finite", "zero"}, input: input{ends: true, missing: true}},
	{name: "missing-rejected", train: tiny, input: input{ends: true, missing: true}},
	{name: "window-front", train: append(tiny, "--policy", "window", "--length", "16", "--hop", "8", "--front", "center=80ms,decimate=2"), input: input{}},
	{name: "count-single-network", train: []string{"--network", "eusn", "--units", "3", "--features", "last", "--policy", "count", "--length", "8", "--segments", "none", "--sample-rate", "100Hz", "--max-error", "0.2", "--confidence", "0.5"}, input: input{}},
	{name: "count-segments", train: append(tiny, "--policy", "count", "--length", "8", "--segments", "4"), input: input{}},
	{name: "gap", train: append(tiny, "--policy", "gap", "--gap", "500ms", "--early", "8", "--decide", "--decide-loss", "0.2"), input: input{gaps: true}},
	{name: "endless-inputs", train: append(tiny, "--policy", "endless", "--early", "8", "--drift"), input: input{}},
	{name: "numbers", train: append(tiny, "--target", "seq", "--coverage", "0.8", "--random-features", "none", "--policy", "count", "--length", "16"), numbers: true, input: input{}},
	{name: "numbers-regimes", train: append(tiny, "--target", "seq", "--coverage", "0.8", "--random-features", "none", "--policy", "window", "--length", "16", "--hop", "4", "--train-hop", "8", "--cap", "200", "--settings", "c1", "--regimes", "3"), numbers: true, input: input{}},
	{name: "numbers-random", train: append(tiny, "--target", "seq", "--random-features", "40", "--means", "3,12", "--front", "smooth=2", "--policy", "window", "--length", "16", "--hop", "4", "--early", "2"), numbers: true, input: input{}},
	{name: "novel-only", train: append(tiny, "--healthy-only=slow", "--false-alarms", "0.1", "--policy", "window", "--length", "20", "--hop", "10"), input: input{}},
	{name: "promoted-and-shadowed", train: append(tiny, "--early", "10"), input: input{ends: true}, operate: func(j *job) {
		next, shadow := j.publish("--alpha", "100"), j.publish("--ridge", "--alpha", "0.1")
		j.must("model", "promote", next)
		j.must("model", "shadow", "add", shadow)
	}},
	{name: "resized", train: append(tiny, "--policy", "window", "--length", "16", "--hop", "8"), input: input{}, operate: func(j *job) {
		j.must("job", "resize", "5", "--model", j.model, "-c", j.config)
	}},
	{name: "replaced", train: tiny, input: input{ends: true}, operate: func(j *job) {
		j.model = j.train("green.safetensors", "--seed", "7")
		j.stage("--job", "green", "--input-job", "eusn")
		j.settle("green")
		j.stop()
		j.must("job", "replace", "--with", "green", "-c", j.config)
	}},
}

// TestGoldens runs each job and compares all its results with its file.
func TestGoldens(t *testing.T) {
	for _, g := range jobs {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, g)
			j.stage()
			j.send(0, streams*samples/2)
			j.settle("eusn")
			if g.operate != nil {
				j.stop()
				g.operate(j)
				j.stage()
			}
			j.send(streams*samples/2, streams*samples)
			j.settle("eusn")
			j.stop()
			got := j.ending()

			path := filepath.Join("testdata", g.name+".txt")
			if *update {
				clitest.Write(t, path, got)
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if line, a, b := firstDifference(got, string(want)); line > 0 {
				t.Errorf("%s:%d: the job comes to\n%s\nwant\n%s", path, line, a, b)
			}
		})
	}
}

// The files contain each possible column and flag of a job at least once: otherwise a
// column could be lost without a difference.
func TestGoldensHoldEverything(t *testing.T) {
	all := ""
	for _, g := range jobs {
		all += string(clitest.Read(t, filepath.Join("testdata", g.name+".txt")))
	}
	for _, want := range []string{
		`"class":`, `"score":`, `"probability":`, `"scores":`, `"set":`, `"novelty":`, `"novelty_p":`, `"change":`, `"inputs":`, `"number":`, `"decided":`,
		`early`, `held`, `gap`, `poison-skipped`, `out-of-range`, `length`, `rate`, `decided`, `abstain`,
		"# dead letters\n{", "# streams\n", "# shadows\n{", "# offline\n{",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no job gives %s", want)
		}
	}
}
