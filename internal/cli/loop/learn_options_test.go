package loop_test

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/adaptive"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// With --adaptive the thresholds of the new readout's sets equal those of a plain run
// at the adapted share; the readout is the same, and so is a second run.
func TestLearnAdaptive(t *testing.T) {
	t.Parallel()
	const level = .8
	j := newLearnJob(t, learnStreams*learnSequences, "--members", "2", "--units", "8", "--coverage", "0.8", "--drift")
	j.sayAll(t)
	if r := clitest.Must(t, j.args("plain.safetensors")...); !strings.Contains(r.ErrOut, "warning: the previous readout computes novelty and the distribution of the inputs, and the new one does not") || !strings.Contains(r.ErrOut, "train with train --drift") {
		t.Errorf("what is lost is not said:\n%s", r.ErrOut)
	}
	var did struct {
		Report struct {
			Readout struct{ Adaptive *adaptive.Report }
		}
	}
	r := clitest.Must(t, j.args("adapted.safetensors", "--solve", "--adaptive", "0.1", "--json")...)
	r.Parse(t, &did)
	a, plain, got := did.Report.Readout.Adaptive, loadModel(t, j.in("plain.safetensors")).Readouts[0], loadModel(t, j.in("adapted.safetensors")).Readouts[0]
	if a == nil || a.Samples != 36 || a.Level != level || a.Rate != .1 || plain.Coverage.Adapted != 0 || math.Abs(a.Coverage-level) > a.Bound {
		t.Fatalf("%+v, without %+v", a, plain.Coverage)
	}
	if c := got.Coverage; c.Level != level || !slices.Equal(c.Least, fit.ThresholdsAt(plain.Coverage, a.Share)) || math.Abs(c.Adapted-(1-a.Share)) > 1e-15 {
		t.Errorf("%+v, want thresholds of %+v at share %v", got.Coverage, plain.Coverage, a.Share)
	}
	sameReadout(t, "adapted", j.in("adapted.safetensors"), j.in("plain.safetensors"))
	out := clitest.Must(t, j.args("again.safetensors", "--solve", "--adaptive", "0.1")...).Out
	if !strings.Contains(out, "adaptive   coverage ") {
		t.Errorf("it says nothing of it:\n%s", out)
	}
	if again := loadModel(t, j.in("again.safetensors")).Readouts[0].Coverage; !reflect.DeepEqual(again, got.Coverage) {
		t.Errorf("again %+v, want %+v", again, got.Coverage)
	}
	// The next readout is trained for the stated level, not for the adapted level.
	next := slices.Clone(j.args("next.safetensors", "--solve"))
	next[slices.Index(next, j.model)] = j.in("adapted.safetensors")
	clitest.Must(t, next...)
	if c := loadModel(t, j.in("next.safetensors")).Readouts[0].Coverage; !reflect.DeepEqual(c, plain.Coverage) {
		t.Errorf("learned from an adapted one: %+v, want %+v", c, plain.Coverage)
	}
	clitest.Exec(t, t.Context(), j.args("x", "--adaptive", "1")...).Want(t, cli.ExitUsage, "--adaptive 1: want a rate above 0")
	bare := loadModel(t, j.model)
	bare.Readouts[0].Coverage = nil
	if err := bare.Save(j.model); err != nil {
		t.Fatal(err)
	}
	clitest.Exec(t, t.Context(), j.args("x", "--solve", "--adaptive", "0.1")...).Want(t, cli.ExitUsage, "makes no sets of classes", "try: ")
}

// With class weights, the readout equals the readout of train with the same weights,
// bit for bit. Sums have no weights.
func TestLearnWithClassWeights(t *testing.T) {
	t.Parallel()
	const weights = "fast=1,odd=7,slow=2.5"
	j := newLearnJob(t, learnStreams*learnSequences, "--members", "2", "--units", "8", "--class-weights", weights)
	j.sayAll(t)
	did := j.to(t, "weighted.safetensors", "--class-weights", weights)
	sameReadout(t, "with weights", j.in("weighted.safetensors"), j.model)
	if w := did["report"].(map[string]any)["readout"].(map[string]any)["class_weights"]; w == nil {
		t.Errorf("it does not say the weights: %v", did["report"])
	}
	j.to(t, "plain.safetensors", "--solve")
	if plain := loadModel(t, j.in("plain.safetensors")).Readouts[0]; slices.Equal(plain.Weights, loadModel(t, j.model).Readouts[0].Weights) {
		t.Error("the weights change nothing")
	}
	for want, args := range map[string][]string{
		"--class-weights fast: want balanced": {"--class-weights", "fast"},
		"sums of features count all":          {"--class-weights", "balanced", "--sums", "all"},
	} {
		clitest.Exec(t, t.Context(), j.args("x", args...)...).Want(t, cli.ExitUsage, want)
	}
	clitest.Exec(t, t.Context(), j.args("x", "--solve", "--class-weights", "fast=1,slow=2")...).Want(t, cli.ExitFailure, `class weights without class "odd"`)
}

// The new readout keeps the previous readout's largest error and confidence, with a new
// threshold: that of train with the same labels.
func TestLearnKeepsTheLargestError(t *testing.T) {
	t.Parallel()
	j := newLearnJob(t, learnStreams*learnSequences, "--members", "2", "--units", "8", "--max-error", "0.4", "--confidence", "0.6")
	j.sayAll(t)
	did := j.to(t, "new.safetensors")
	sameReadout(t, "with a largest error", j.in("new.safetensors"), j.model)
	if got, want := loadModel(t, j.in("new.safetensors")).Readouts[0].Abstain, loadModel(t, j.model).Readouts[0].Abstain; got == nil || *got != *want || got.MaxError != .4 || got.Confidence != .6 {
		t.Errorf("the rule is %+v, want %+v", got, want)
	}
	if c := did["report"].(map[string]any)["readout"].(map[string]any)["answers"]; c == nil {
		t.Errorf("it does not say what answers are worth: %v", did["report"])
	}
	if out := clitest.Must(t, j.args("again.safetensors", "--solve")...).Out; !strings.Contains(out, "at most 40 % of these are wrong, with a confidence of 60 %") {
		t.Errorf("it says nothing of answers:\n%s", out)
	}
}
