package loop_test

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/readout/adaptive"
)

// With --adaptive the thresholds of the new readout's sets are those of a plain run at the
// share that the labels have led to; the readout is the same, and so is a second run.
func TestLearnAdaptive(t *testing.T) {
	t.Parallel()
	const level = .8
	j := newLearnJob(t, learnStreams*learnSequences, "--members", "2", "--units", "8", "--coverage", "0.8")
	j.sayAll(t)
	j.to(t, "plain.safetensors")
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
	if c := got.Coverage; c.Level != level || !slices.Equal(c.Least, plain.Coverage.At(a.Share)) || math.Abs(c.Adapted-(1-a.Share)) > 1e-15 {
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
	// The next one is learnt for the level that was stated, not for the adapted one.
	next := slices.Clone(j.args("next.safetensors", "--solve"))
	next[slices.Index(next, j.model)] = j.in("adapted.safetensors")
	clitest.Must(t, next...)
	if c := loadModel(t, j.in("next.safetensors")).Readouts[0].Coverage; !reflect.DeepEqual(c, plain.Coverage) {
		t.Errorf("learnt from an adapted one: %+v, want %+v", c, plain.Coverage)
	}
	clitest.Exec(t, t.Context(), j.args("x", "--adaptive", "1")...).Want(t, cli.ExitUsage, "--adaptive 1: want a rate above 0")
	bare := loadModel(t, j.model)
	bare.Readouts[0].Coverage = nil
	if err := bare.Save(j.model); err != nil {
		t.Fatal(err)
	}
	clitest.Exec(t, t.Context(), j.args("x", "--solve", "--adaptive", "0.1")...).Want(t, cli.ExitUsage, "makes no sets of classes", "try: ")
}
