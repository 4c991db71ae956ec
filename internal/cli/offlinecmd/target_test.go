package offlinecmd_test

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/internal/offline/bridge"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/offline"
)

// A number from the command line: the number of samples so far of a recording's stream, in a column of every
// recording.
func TestTarget(t *testing.T) {
	dir := t.TempDir()
	csv := clitest.Write(t, filepath.Join(dir, "plant.csv"), clitest.RecordingCSV(3, 400))
	archive, model := filepath.Join(dir, "plant.parquet"), filepath.Join(dir, "m")
	clitest.Must(t, "import", csv, "--output", archive)
	retrain := func(args ...string) []string {
		return append([]string{"train", archive, "--policy", "count", "--length", "10", "--members", "4", "--units", "10", "--output", model}, args...)
	}
	var trained struct {
		Model  models.Report
		Report offline.RetrainReport
	}
	clitest.Must(t, retrain("--target", "seq", "--json")...).Parse(t, &trained)
	if h, n := trained.Model.Readouts[0], trained.Report.Readout.Numbers; h.Interval == nil || h.Interval.Level != .95 || len(h.Classes) != 1 || n == nil || n.Samples != 120 {
		t.Errorf("retrain --json gives %+v, %+v", h, n)
	}
	if r := clitest.Must(t, retrain("--target", "seq", "--coverage", "0.8")...); !strings.Contains(r.Out, "errors     root mean square ") || !strings.Contains(r.Out, "readout    default: a number: seq") || !strings.Contains(r.Out, "which holds 80 % of the true numbers") || !strings.Contains(r.ErrOut, "these errors are from leave-one-out") {
		t.Errorf("retrain prints\n%s%s", r.Out, r.ErrOut)
	}
	var ev offline.Evaluation
	evaluate := []string{"evaluate", archive, "--model", model}
	clitest.Must(t, append(evaluate, "--json")...).Parse(t, &ev)
	if ev.Numbers == nil || ev.Numbers.Samples != 120 || ev.Labeled != 120 {
		t.Errorf("evaluate --json gives %+v", ev.Numbers)
	}
	if r := clitest.Must(t, evaluate...); !strings.Contains(r.Out, "plant, recording: seq of 120 sequences, 120 of them known") || !strings.Contains(r.Out, "intervals  hold ") {
		t.Errorf("evaluate prints\n%s", r.Out)
	}
	next := filepath.Join(dir, "next.safetensors")
	if r := clitest.Must(t, append(evaluate, "--adaptive", "0.05", "--output", next)...); !strings.Contains(r.Out, "adaptive   intervals hold ") {
		t.Errorf("evaluate --adaptive prints\n%s", r.Out)
	}
	var adapted bridge.Adapted
	clitest.Must(t, append(evaluate, "--adaptive", "0.05", "--label-delay", "3", "--json", "--output", next)...).Parse(t, &adapted)
	var shown models.Report
	clitest.Must(t, "model", "show", next, "--json").Parse(t, &shown)
	if v, a := shown.Readouts[0].Interval, adapted.AdaptiveNumbers; v == nil || a == nil || a.Late != 3 || math.Abs(float64(v.Low)-a.Low) > 1e-5*math.Abs(a.Low) || math.Abs(float64(v.High)-a.High) > 1e-5*math.Abs(a.High) { // a float32
		t.Errorf("the new model has %+v, evaluated %+v", v, a)
	}
	clitest.Exec(t, t.Context(), append(evaluate, "--output", next)...).Want(t, cli.ExitUsage, "want --adaptive, too")
	clitest.Exec(t, t.Context(), append(evaluate, "--adaptive", "0.05", "--output", model)...).Want(t, cli.ExitFailure, "is an input of this command")
	clitest.Exec(t, t.Context(), append(evaluate, "--min-accuracy", "0.5")...).Want(t, cli.ExitFailure, "numbers, which have no accuracy")
	if r := clitest.Must(t, retrain("--target", "seq", "--cap", "125")...); !strings.Contains(r.Out, "numbers above 125 were learned as 125") || !strings.Contains(r.Out, "limited to 10 to 125, the range of the training") {
		t.Errorf("retrain --cap prints\n%s", r.Out)
	}
	if r := clitest.Must(t, evaluate...); !strings.Contains(r.Out, "last       of each of 3 streams: root mean square ") || !strings.Contains(r.Out, "score      PHM 2008 ") || !strings.Contains(r.Out, "numbers above 125 count as 125") {
		t.Errorf("evaluate of capped numbers prints\n%s", r.Out)
	}
	if r := clitest.Must(t, retrain("--target", "seq", "--cap", "125", "--clip=false")...); strings.Contains(r.Out, "limited to") {
		t.Errorf("retrain --clip=false prints\n%s", r.Out)
	}
	random := []string{"--target", "seq", "--means", "3,50"}
	if r := clitest.Must(t, retrain(append(random, "--random-features", "30")...)...); !strings.Contains(r.Out, "with 30 random features of running means of 3, 50 samples, ") || !strings.Contains(r.Out, ": random features chosen") || !strings.Contains(r.Out, "\n           of 30 random features\n") || !strings.Contains(r.Out, "keeps running means of 3, 50 samples of each channel") {
		t.Errorf("retrain --random-features prints\n%s", r.Out)
	}
	var chosen struct {
		Report offline.RetrainReport
	}
	clitest.Must(t, retrain(append(random, "--json")...)...).Parse(t, &chosen)
	if r := chosen.Report.Random; r == nil || r.Units != 512 || r.Chosen != (r.RMSE < r.Network) || r.Chosen && r.RMSE != chosen.Report.Readout.Numbers.RMSE {
		t.Errorf("retrain --json gives %+v", r)
	}
	if r := clitest.Must(t, retrain("--target", "seq", "--random-features", "none")...); strings.Contains(r.Out, "random") {
		t.Errorf("retrain --random-features none prints\n%s", r.Out)
	}
	hop := []string{"train", archive, "--policy", "window", "--length", "10", "--hop", "1", "--train-hop", "5", "--members", "4", "--units", "10", "--output", model, "--target", "seq"}
	if r := clitest.Must(t, hop...); !strings.Contains(r.ErrOut, "window of 10 samples every 1; learning from every 5 samples") {
		t.Errorf("train --train-hop prints\n%s", r.ErrOut)
	}
	for want, args := range map[string][]string{
		"want --target, too":               {"--cap", "125"},
		"--cap NaN: want":                  {"--target", "seq", "--cap", "NaN"},
		"--train-hop -1: want":             {"--target", "seq", "--train-hop", "-1"},
		"are about numbers: want --target": {"--means", "4"},
		"--random-features some: want":     {"--target", "seq", "--random-features", "some"},
		"want one of them":                 {"--target", "seq", "--random-features", "none", "--means", "4"},
		"numbers have no classes":          {"--target", "seq", "--priors", "balanced"},
		"train in one job":                 {"--target", "seq", "--shard", "1/2"},
		"leave --labels out":               {"--target", "seq", "--labels", csv},
	} {
		clitest.Exec(t, t.Context(), retrain(args...)...).Want(t, cli.ExitUsage, want)
	}
	clitest.Exec(t, t.Context(), retrain("--target", "wear")...).Want(t, cli.ExitFailure, `no column "wear", whose values are to be numbers to learn`)
	set := clitest.ImportTiny(t, 2)
	clitest.Exec(t, t.Context(), "train", set, "--target", "wear", "--output", model).Want(t, cli.ExitFailure, `no column "wear"`, "docs/parquet.md")
}
