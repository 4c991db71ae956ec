package loop_test

import (
	"bufio"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/planttest"
)

func TestMain(m *testing.M) { planttest.Main(m) }

// The whole loop by its commands: predict, label, learn, publish, promote, roll back,
// with a new worker each time. Live predictions of both readouts have their model's
// offline scores and readout name, and the states verify.
func TestLoop(t *testing.T) {
	t.Parallel()
	const all = learnStreams * learnSequences
	j := newLearnJob(t, all, "--members", "2", "--units", "8")
	j.sayOf(t, func(stream int) bool { return stream > 1 }) // less than the model was trained on
	clitest.Must(t, j.args("new.safetensors")...)
	offline := func(model string) map[string][]float32 {
		t.Helper()
		out := j.in("offline-" + model + ".jsonl")
		clitest.Must(t, "predict", j.in("r.parquet"), "--model", j.in(model), "--output", out, "--progress", "none")
		var lines []clitest.Line
		for line := range strings.Lines(string(clitest.Read(t, out))) {
			var p clitest.Line
			if err := json.Unmarshal([]byte(line), &p); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			lines = append(lines, p)
		}
		return scoresOf(lines)
	}
	first, second := offline("m.safetensors"), offline("new.safetensors")
	if maps.EqualFunc(first, second, slices.Equal) {
		t.Fatal("both models have the same scores: the test shows nothing")
	}

	at := func(args ...string) []string { return append(args, "--nats-url", j.url) }
	run := at("run", "--json", "--model", j.model, "--partitions", "3")
	// replayed resends the recording and compares the stage's predictions.
	replayed := func(readout string, want map[string][]float32) {
		t.Helper()
		stage := clitest.Start(t, "reading sensors.*", run...)
		clitest.Must(t, at("replay", j.in("r.parquet"), "--rows", "7")...)
		var lines []clitest.Line
		for in := bufio.NewScanner(stage.Out); len(lines) < all && in.Scan(); {
			var p clitest.Line
			if err := json.Unmarshal(in.Bytes(), &p); err != nil || p.Readout != readout {
				t.Fatalf("prediction %s, want readout %q (%v)", in.Text(), readout, err)
			}
			lines = append(lines, p)
		}
		if got := scoresOf(lines); !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("readout %q: live scores\n%v, offline\n%v", readout, got, want)
		}
		stage.Stop(t).Want(t, cli.ExitOK)
	}
	began := strings.Fields(clitest.Must(t, at("model", "list")...).Out)[0]
	print := strings.TrimSpace(clitest.Must(t, at("model", "publish", j.in("new.safetensors"), "--who", "anna")...).Out)
	replayed("", first) // a published readout does not predict
	stage := clitest.Start(t, "reading sensors.*", run...)
	clitest.Must(t, at("model", "promote", print, "--who", "anna")...)
	stage.Stop(t).Want(t, cli.ExitOK)
	replayed(print, second)
	clitest.Must(t, at("state", "verify", "--model", j.model)...)
	stage = clitest.Start(t, "reading sensors.*", run...)
	clitest.Must(t, at("model", "rollback", "--who", "anna")...)
	stage.Stop(t).Want(t, cli.ExitOK)
	replayed(began, first)
}

// scoresOf is the scores of each stream's predictions, in order.
func scoresOf(lines []clitest.Line) map[string][]float32 {
	all := map[string][]float32{}
	for _, p := range lines {
		all[p.Stream] = append(all[p.Stream], p.Scores...)
	}
	return all
}
