package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/offline"
)

// tinyData writes a data set of two easy classes, slow and fast waves, as .ts
// files, and returns their folder.
func tinyData(t *testing.T, name string, channels, series, length int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"TRAIN", "TEST"} {
		var b strings.Builder
		fmt.Fprintf(&b, "@problemName %s\n@univariate %v\n@classLabel true fast slow\n@data\n", name, channels == 1)
		for i := range series {
			label, step := "slow", 0.2
			if i%2 == 1 {
				label, step = "fast", 0.6
			}
			phase := float64(i)
			if part == "TEST" {
				phase += 0.5
			}
			for c := range channels {
				for k := range length {
					if k > 0 {
						b.WriteByte(',')
					}
					fmt.Fprintf(&b, "%.4f", math.Sin(step*float64(k)+phase+float64(c)))
				}
				b.WriteByte(':')
			}
			fmt.Fprintln(&b, label)
		}
		write(t, filepath.Join(dir, name+"_"+part+".ts"), b.String())
	}
	return dir
}

// importTiny returns the archive of a tiny data set.
func importTiny(t *testing.T, channels int) string {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "tiny.parquet")
	must(t, "offline", "import", tinyData(t, "Tiny", channels, 24, 40), "--out", archive)
	return archive
}

func TestImportRetrainEvaluate(t *testing.T) {
	source, dir := tinyData(t, "Tiny", 2, 24, 40), t.TempDir()
	archive, model := filepath.Join(dir, "tiny.parquet"), filepath.Join(dir, "m.safetensors")

	var imported struct {
		Archive string
		offline.Summary
	}
	must(t, "offline", "import", source, "--out", archive, "--json").parse(t, &imported)
	if imported.Archive != archive || imported.Channels != 2 || imported.Train.Series != 24 || imported.Test.Series != 24 {
		t.Errorf("import --json gives %+v", imported)
	}
	exec(t, t.Context(), "offline", "import", source, "--out", archive).want(t, exitFailure, "left as it is", "--force")
	must(t, "offline", "import", source, "--out", archive, "--force")

	var trained struct {
		Model  modelReport
		Report offline.RetrainReport
	}
	must(t, "offline", "retrain", "--archive", archive, "--out", model, "--members", "4", "--units", "10", "--json").parse(t, &trained)
	if trained.Model.Spec.Members != 4 || trained.Model.Spec.Units != 10 || trained.Report.Series != 24 {
		t.Errorf("retrain --json gives %+v", trained)
	}

	predictions := filepath.Join(dir, "p.parquet")
	var ev offline.Evaluation
	must(t, "offline", "evaluate", "--archive", archive, "--model", model, "--predictions", predictions, "--json").parse(t, &ev)
	if ev.Series != 24 || ev.Accuracy < 0.9 {
		t.Errorf("evaluate --json gives %+v, want 24 series and an accuracy of at least 0.9 on waves of 0.2 and 0.6 rad per sample", ev)
	}
	if _, err := os.Stat(predictions); err != nil {
		t.Error(err)
	}
	if r := must(t, "offline", "evaluate", "--archive", archive, "--model", model); !strings.Contains(r.out, "fast") {
		t.Errorf("no confusion matrix:\n%s", r.out)
	}
	exec(t, t.Context(), "offline", "evaluate", "--archive", archive, "--model", model, "--min-accuracy", "1.1").want(t, exitTolerance, "below")

	var inspected modelReport
	must(t, "model", "inspect", "--json", model).parse(t, &inspected)
	if inspected.SHA256 != trained.Model.SHA256 {
		t.Error("inspect and retrain tell different fingerprints")
	}
	must(t, "model", "verify", model, "--sha256", inspected.SHA256)
	exec(t, t.Context(), "model", "verify", model, "--sha256", "00").want(t, exitIntegrity, "want 00")
	if left := leftovers(t, dir, "tiny.parquet", "m.safetensors", "p.parquet"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestPaperNetworks(t *testing.T) {
	archive, dir := importTiny(t, 1), t.TempDir()
	for _, args := range [][]string{{"--eps", "0.1"}, {"--network", "esn", "--leak", "0.5"}, {"--network", "resn"}, {"--spectral-radius", "0.5"}} {
		var out struct{ Model modelReport }
		args = append([]string{"offline", "retrain", "--json", "--archive", archive, "--units", "12", "--out", filepath.Join(dir, "m")}, args...)
		must(t, args...).parse(t, &out)
		if s := out.Model.Spec; s.Members != 1 || s.Units != 12 || s.Standardise || len(s.Features) != 1 {
			t.Errorf("%v trained %+v, want one plain network of 12 units", args, s)
		}
	}
}

// A model must not be fed what it was not made for.
func TestWrongData(t *testing.T) {
	two, three := importTiny(t, 2), importTiny(t, 3)
	dir := t.TempDir()
	model := filepath.Join(dir, "m")
	must(t, "offline", "retrain", "--archive", three, "--out", model, "--members", "2", "--units", "5")
	exec(t, t.Context(), "offline", "evaluate", "--model", model, "--archive", two).
		want(t, exitIntegrity, "reads 3 channels", "has 2", "try: eusn-stream model inspect")
	exec(t, t.Context(), "offline", "evaluate", "--model", model, "--archive", "none.parquet").
		want(t, exitFailure, "no archive none.parquet", "try: eusn-stream offline import")
	exec(t, t.Context(), "offline", "evaluate", "--model", model, "--archive", dir).want(t, exitFailure, dir+" is a folder with 0 archives")
	source := tinyData(t, "Tiny", 1, 8, 20)
	exec(t, t.Context(), "offline", "import", filepath.Dir(source), "--name", "Tinny").want(t, exitFailure, "Tinny", "Tiny")
	exec(t, t.Context(), "offline", "import", filepath.Join(dir, "nothing")).want(t, exitFailure, "nothing", "try:")
	exec(t, t.Context(), "offline", "evaluate", "--model", model, "--archive", model).want(t, exitIntegrity, model, "try: another file")
	exec(t, t.Context(), "offline", "retrain", "--archive", two, "--out", model, "--units", "-1").want(t, exitUsage, "--units -1", "try: eusn-stream offline retrain --help")
}

// stopAt cancels a context once a text appears in what is written to it.
type stopAt struct {
	text   string
	cancel context.CancelFunc
	w      io.Writer
	seen   bool
}

func (s *stopAt) Write(b []byte) (int, error) {
	if strings.Contains(string(b), s.text) {
		s.seen = true
		s.cancel()
	}
	return s.w.Write(b)
}

// Ctrl-C before the work begins, which every loop must notice.
func TestInterrupted(t *testing.T) {
	source, archive, dir := tinyData(t, "Tiny", 1, 8, 20), importTiny(t, 1), t.TempDir()
	model := filepath.Join(dir, "m.safetensors")
	must(t, "offline", "retrain", "--archive", archive, "--out", model, "--members", "2", "--units", "5")
	before, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, args := range [][]string{
		{"offline", "import", source, "--out", filepath.Join(dir, "new.parquet")},
		{"offline", "retrain", "--archive", archive, "--out", model, "--seed", "9"},
		{"offline", "evaluate", "--archive", archive, "--model", model, "--predictions", filepath.Join(dir, "p.parquet")},
	} {
		exec(t, ctx, args...).want(t, exitInterrupted, "interrupted:")
	}
	if left := leftovers(t, dir, "m.safetensors"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if after, _ := os.ReadFile(model); string(after) != string(before) {
		t.Error("the interrupted training changed the model file")
	}
}
