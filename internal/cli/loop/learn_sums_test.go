package loop_test

import (
	"math"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// nearReadout requires that two models' readouts decide alike: equal weights up to a
// common scale, which for the discriminant follows from leave-one-out sequences, like
// the temperature. Scale and weights are rounded to float32, 6e-8 each.
func nearReadout(t *testing.T, what, got, want string) {
	t.Helper()
	a, b := loadModel(t, got), loadModel(t, want)
	alpha := func(m *reservoir.Model) string { text, _, _ := strings.Cut(m.Training.Alpha, ","); return text }
	if alpha(a) != alpha(b) {
		t.Fatalf("%s: alpha %s, want %s", what, a.Training.Alpha, b.Training.Alpha)
	}
	v, w := a.Readouts[0].Weights, b.Readouts[0].Weights
	scale := float64(v[0]) / float64(w[0])
	if scale < .9 || scale > 1.1 {
		t.Fatalf("%s: the scale is %v, want about 1", what, scale)
	}
	for i := range v {
		if x, y := float64(v[i]), scale*float64(w[i]); math.Abs(x-y) > 4e-7*math.Abs(y) {
			t.Errorf("%s: weight %d is %v, want %v", what, i, x, y)
		}
	}
}

// With --sums most features are replaced by sums. Training from sums equals training
// from features; an excluded or corrected sequence is subtracted, with features
// recomputed from the log, and refused without the log.
func TestLearnSums(t *testing.T) {
	t.Parallel()
	j := newLearnJob(t, learnStreams*learnSequences, "--members", "1", "--units", "4", "--features", "last")
	j.sayAll(t)
	did := j.to(t, "features.safetensors")
	r := clitest.Must(t, j.args("first.safetensors", "--sums", "all", "--keep-features", "30")...)
	if !strings.Contains(r.ErrOut, "features of 6 sequences (0.0 MB) are given up for sums: 1 groups have sums, features of 30 sequences stay") {
		t.Errorf("it says\n%s", r.ErrOut)
	}
	sameReadout(t, "before features are given up", j.in("first.safetensors"), j.in("features.safetensors"))
	summed := j.to(t, "sums.safetensors", "--solve")
	if summed["sequences"] != did["sequences"] || summed["features_stored"] != 30. || summed["fingerprint"] != did["fingerprint"] {
		t.Errorf("it counts %v, before %v", summed, did)
	}
	nearReadout(t, "from sums", j.in("sums.safetensors"), j.in("features.safetensors"))

	// A part of the group.
	clitest.Exec(t, t.Context(), j.args("x.safetensors", "--solve", "--exclude", "stream=m*")...).Want(t, cli.ExitFailure, "none of 36 labels", "try: ")
	clitest.Exec(t, t.Context(), j.args("x.safetensors", "--solve", "--exclude", "stream=m0", "--exclude", "stream=m1", "--exclude", "stream=m2")...).
		Want(t, cli.ExitFailure, `site "all", labeled by anna`, "features were replaced", "try: the same command without --solve")
	r = clitest.Must(t, j.args("without.safetensors", "--exclude", "stream=m0", "--exclude", "stream=m1", "--exclude", "stream=m2")...)
	if !strings.Contains(r.ErrOut, "are in sums alone, and are computed again from the log") {
		t.Errorf("it says\n%s", r.ErrOut)
	}
	never := append(j.args("never.safetensors", "--exclude", "stream=m0", "--exclude", "stream=m1", "--exclude", "stream=m2"), "--store", j.in("never"))
	clitest.Must(t, never...)
	nearReadout(t, "without three streams", j.in("without.safetensors"), j.in("never.safetensors"))

	// A correction, and the next sequences.
	j.say(t, j.predicted(t, 4, 3, "slow"), j.predicted(t, 4, 4, learnClass(4, 4)))
	clitest.Must(t, j.args("more.safetensors", "--sums", "all", "--keep-features", "30")...)
	clitest.Must(t, append(j.args("fresh.safetensors"), "--store", j.in("fresh"))...)
	nearReadout(t, "corrected", j.in("more.safetensors"), j.in("fresh.safetensors"))
	again := j.to(t, "again.safetensors", "--solve", "--leave-out", "stream")
	nearReadout(t, "corrected, from sums", j.in("again.safetensors"), j.in("fresh.safetensors"))
	if left := again["left_out"].([]any); len(left) != learnStreams {
		t.Errorf("left out: %v", left)
	}

	for says, args := range map[string][]string{"--keep-features is for --sums": {"--keep-features", "3"}, "--sums: m.: want": {"--sums", "m."}, "--leave-out: all: want": {"--leave-out", "all"}} {
		clitest.Exec(t, t.Context(), j.args("x.safetensors", args...)...).Want(t, cli.ExitUsage, says, "try: ")
	}
	mixed := j.in("mixed.safetensors")
	clitest.Must(t, "train", j.in("r.parquet"), "--output", mixed, "--bank", "tiny")
	clitest.Exec(t, t.Context(), j.args("x.safetensors", "--model", mixed, "--sums", "all")...).Want(t, cli.ExitUsage, "limits depend on all samples", "try: the same command without --sums")
}
