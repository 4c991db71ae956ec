package offlinecmd_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/offline"
)

func TestMaxError(t *testing.T) {
	archive, model := clitest.ImportTiny(t, 2), filepath.Join(t.TempDir(), "m")
	retrain := func(args ...string) []string {
		return append([]string{"train", archive, "--members", "4", "--units", "10", "--output", model}, args...)
	}
	var trained struct {
		Model  models.Report
		Report offline.RetrainReport
	}
	clitest.Must(t, retrain("--max-error", "0.3", "--confidence", "0.8", "--json")...).Parse(t, &trained)
	if r, c := trained.Model.Readouts[0].Abstain, trained.Report.Readout.Answers; r == nil || r.MaxError != .3 || r.Confidence != .8 || c == nil || c.Answered == 0 {
		t.Errorf("retrain --json gives %+v and %+v", r, c)
	}
	var ev offline.Evaluation
	clitest.Must(t, "evaluate", archive, "--model", model, "--json").Parse(t, &ev)
	if ev.Answers == nil || ev.Answers.Samples != ev.Labeled {
		t.Errorf("evaluate --json gives %+v", ev.Answers)
	}
	if r := clitest.Must(t, "evaluate", archive, "--model", model); !strings.Contains(r.Out, "answers    ") {
		t.Errorf("no answers:\n%s", r.Out)
	}
	if r := clitest.Must(t, "model", "show", model); !strings.Contains(r.Out, "at most 30 % of these are wrong, with a confidence of 80 %") {
		t.Errorf("no answers:\n%s", r.Out)
	}
	if r := clitest.Must(t, retrain("--max-error", "0.0001")...); !strings.Contains(r.ErrOut, "every prediction abstains; that takes at least 29956 sequences") || !strings.Contains(r.Out, "answers    0.0 %") {
		t.Errorf("no warning:\n%s\n%s", r.ErrOut, r.Out)
	}
	for want, args := range map[string][]string{
		"--max-error 1: want a share above 0 and below 1":        {"--max-error", "1"},
		"--confidence 1: want a probability above 0 and below 1": {"--max-error", "0.1", "--confidence", "1"},
		"--confidence 0.9: want --max-error, too":                {"--confidence", "0.9"},
		"--max-error and --priors":                               {"--max-error", "0.1", "--priors", "balanced"},
		"numbers have no classes":                                {"--max-error", "0.1", "--target", "x"},
		"train in one job":                                       {"--max-error", "0.1", "--shard", "1/2"},
	} {
		clitest.Exec(t, t.Context(), retrain(args...)...).Want(t, cli.ExitUsage, want)
	}
}

func TestCoverageAndPriors(t *testing.T) {
	archive, model := clitest.ImportTiny(t, 2), filepath.Join(t.TempDir(), "m")
	retrain := func(args ...string) []string {
		return append([]string{"train", archive, "--members", "4", "--units", "10", "--output", model}, args...)
	}
	var trained struct{ Model models.Report }
	clitest.Must(t, retrain("--coverage", "0.8", "--coverage-by", "class", "--priors", "slow=2,fast=1", "--json")...).Parse(t, &trained)
	if c := trained.Model.Readouts[0].Coverage; c == nil || c.Level != .8 || !c.ByClass {
		t.Errorf("retrain --json gives %+v", trained.Model.Readouts)
	}
	var ev offline.Evaluation
	clitest.Must(t, "evaluate", archive, "--model", model, "--json").Parse(t, &ev)
	if ev.Sets == nil || ev.Sets.Samples != ev.Labeled {
		t.Errorf("evaluate --json gives %+v", ev.Sets)
	}
	if r := clitest.Must(t, "evaluate", archive, "--model", model); !strings.Contains(r.Out, "sets       coverage ") {
		t.Errorf("no sets:\n%s", r.Out)
	}
	if r := clitest.Must(t, "model", "show", model); !strings.Contains(r.Out, "in the set of 80 % of those of each class") {
		t.Errorf("no sets:\n%s", r.Out)
	}
	var weighted struct{ Report offline.RetrainReport }
	clitest.Must(t, retrain("--class-weights", "slow=3,fast=1", "--json")...).Parse(t, &weighted)
	if w := weighted.Report.Readout.Weights; len(w) != 2 || max(w[0], w[1]) < 2.99*min(w[0], w[1]) {
		t.Errorf("retrain --json gives the weights %v", w)
	}
	if r := clitest.Must(t, retrain("--class-weights", "balanced")...); !strings.Contains(r.Out, "with class weights") {
		t.Errorf("no weights:\n%s", r.Out)
	}
	if r := clitest.Must(t, retrain("--coverage", "0.99")...); !strings.Contains(r.ErrOut, "fewer than 99 sequences, too few") {
		t.Errorf("no warning:\n%s", r.ErrOut)
	}
	// by class: every class is in every set, no set is empty and no set is an answer
	if r := clitest.Must(t, retrain("--coverage", "0.99", "--coverage-by", "class")...); !strings.Contains(r.ErrOut, "no set has one class alone") || strings.Contains(r.ErrOut, "hold none") {
		t.Errorf("of classes that are in every set:\n%s", r.ErrOut)
	}
	if r := clitest.Must(t, retrain("--coverage", "0.8")...); !strings.Contains(r.ErrOut, "leave-one-out is right for all sequences") || strings.Contains(r.ErrOut, "above 1.0000") {
		t.Errorf("no sets that hold none:\n%s", r.ErrOut)
	}
	for want, args := range map[string][]string{
		"--coverage 1: want a share above 0 and below 1": {"--coverage", "1"},
		"--coverage-by machine: want all or class":       {"--coverage", "0.9", "--coverage-by", "machine"},
		"want --coverage, too":                           {"--coverage-by", "class"},
		"--priors slow: want balanced, or CLASS=NUMBER":  {"--priors", "slow"},
		"want a positive number":                         {"--priors", "slow=-1,fast=2"},
		"--class-weights slow: want balanced":            {"--class-weights", "slow"},
		`class "slow" twice`:                             {"--priors", "slow=1,slow=2"},
		"train in one job":                               {"--coverage", "0.9", "--shard", "1/2"},
	} {
		clitest.Exec(t, t.Context(), retrain(args...)...).Want(t, cli.ExitUsage, want)
	}
}
