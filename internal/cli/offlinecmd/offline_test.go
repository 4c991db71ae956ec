package offlinecmd_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/internal/imports"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

func TestImportRetrainEvaluate(t *testing.T) {
	source, dir := clitest.TinyData(t, "Tiny", 2, 24, 40), t.TempDir()
	path, model := filepath.Join(dir, "tiny.parquet"), filepath.Join(dir, "m.safetensors")

	if r := clitest.Must(t, "import", source, "--output", path, "--dry-run"); !strings.Contains(r.Out, "2 channel(s), 2 classes") || !strings.HasSuffix(r.ErrOut, "nothing was written; without --dry-run: "+path+"\n") {
		t.Errorf("import --dry-run prints\n%s%s", r.Out, r.ErrOut)
	}
	csv := clitest.Write(t, filepath.Join(t.TempDir(), "r.csv"), clitest.RecordingCSV(2, 80))
	if r := clitest.Must(t, "import", csv, "--output", path, "--dry-run"); !strings.Contains(r.Out, "160 samples of 2 streams, 2 channel(s), 4 sequence ends") || !strings.Contains(r.Out, "columns end, stream, time; channels c0, c1\n") {
		t.Errorf("import --dry-run of a recording prints\n%s%s", r.Out, r.ErrOut)
	}
	if left := clitest.Leftovers(t, dir); len(left) > 0 {
		t.Errorf("import --dry-run left %v", left)
	}
	var imported struct {
		Archive string
		imports.Summary
	}
	clitest.Must(t, "import", source, "--output", path, "--json").Parse(t, &imported)
	if imported.Archive != path || imported.Channels != 2 || imported.Train.Series != 24 || imported.Test.Series != 24 {
		t.Errorf("import --json gives %+v", imported)
	}
	clitest.Exec(t, t.Context(), "import", source, "--output", path).Want(t, cli.ExitFailure, "was not changed", "--force")
	clitest.Must(t, "import", source, "--output", path, "--force")

	var trained struct {
		Model  models.Report
		Report offline.RetrainReport
	}
	clitest.Must(t, "train", path, "--output", model, "--members", "4", "--units", "10", "--json").Parse(t, &trained)
	if trained.Model.Spec.Members != 4 || trained.Model.Spec.Units != 10 || trained.Report.Series != 24 {
		t.Errorf("retrain --json gives %+v", trained)
	}

	predictions := filepath.Join(dir, "p.parquet")
	var ev offline.Evaluation
	clitest.Must(t, "evaluate", path, "--model", model, "--predictions", predictions, "--json").Parse(t, &ev)
	if ev.Series != 24 || ev.Accuracy < 0.9 {
		t.Errorf("evaluate --json gives %+v, want 24 series and an accuracy of at least 0.9 on waves of 0.2 and 0.6 rad per sample", ev)
	}
	if _, err := os.Stat(predictions); err != nil {
		t.Error(err)
	}
	if r := clitest.Must(t, "evaluate", path, "--model", model); !strings.Contains(r.Out, "fast") {
		t.Errorf("no confusion matrix:\n%s", r.Out)
	}
	clitest.Exec(t, t.Context(), "evaluate", path, "--model", model, "--min-accuracy", "1.1").Want(t, cli.ExitTolerance, "below")

	var inspected models.Report
	clitest.Must(t, "model", "show", "--json", model).Parse(t, &inspected)
	if inspected.SHA256 != trained.Model.SHA256 {
		t.Error("inspect and retrain tell different fingerprints")
	}
	clitest.Must(t, "model", "verify", model, "--sha256", inspected.SHA256)
	clitest.Exec(t, t.Context(), "model", "verify", model, "--sha256", "00").Want(t, cli.ExitIntegrity, "want 00")
	if left := clitest.Leftovers(t, dir, "tiny.parquet", "m.safetensors", "p.parquet"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// The mixed banks train, evaluate and are verified as any other model, on the engines that support them; auto takes
// the fastest engine, and reports a slow choice.
func TestMixedBanks(t *testing.T) {
	archive, model := clitest.ImportTiny(t, 2), filepath.Join(t.TempDir(), "m")
	var able []cpu.Kind
	for _, bank := range []string{"standard", "large", "small", "tiny"} {
		var out struct {
			Model  models.Report
			Report offline.RetrainReport
		}
		r := clitest.Must(t, "train", archive, "--bank", bank, "--seed", "3", "--output", model, "--json")
		r.Parse(t, &out)
		if s := out.Model.Spec; s.Kind != reservoir.Mixed || s.Seed != 3 || s.Taps.MaxLag != out.Report.MedianLength/4 {
			t.Errorf("%s trained %+v on sequences of %d samples in the median", bank, s, out.Report.MedianLength)
		}
		able = cpu.Kinds(out.Model.Spec)
		if said := strings.Contains(r.ErrOut, "which is slow"); said != (able[0] == "generic") {
			t.Errorf("of %v, this is said of the engine:\n%s", able, r.ErrOut)
		}
	}
	clitest.Must(t, "evaluate", archive, "--model", model, "--min-accuracy", "0.9")
	clitest.Must(t, "model", "verify", model)
	for _, kind := range cpu.Kinds(reservoir.Spec{}) {
		r := clitest.Exec(t, t.Context(), "evaluate", archive, "--model", model, "--engine", string(kind))
		if slices.Contains(able, kind) {
			r.Want(t, cli.ExitOK)
		} else {
			r.Want(t, cli.ExitUsage, "engine "+string(kind)+" cannot run this network", "--engine auto")
		}
	}
}

func TestPaperNetworks(t *testing.T) {
	archive, dir := clitest.ImportTiny(t, 1), t.TempDir()
	for _, args := range [][]string{{"--eps", "0.1"}, {"--network", "esn", "--leak", "0.5"}, {"--network", "resn"}, {"--spectral-radius", "0.5"}} {
		var out struct{ Model models.Report }
		args = append([]string{"train", "--json", archive, "--units", "12", "--output", filepath.Join(dir, "m")}, args...)
		clitest.Must(t, args...).Parse(t, &out)
		if s := out.Model.Spec; s.Members != 1 || s.Units != 12 || s.Standardize || len(s.Features) != 1 {
			t.Errorf("%v trained %+v, want one plain network of 12 units", args, s)
		}
	}
}

// Data that do not fit the model are refused.
func TestWrongData(t *testing.T) {
	two, three := clitest.ImportTiny(t, 2), clitest.ImportTiny(t, 3)
	dir := t.TempDir()
	model := filepath.Join(dir, "m")
	clitest.Must(t, "train", three, "--output", model, "--members", "2", "--units", "5")
	clitest.Exec(t, t.Context(), "evaluate", "--model", model, two).
		Want(t, cli.ExitIntegrity, "reads 3 channels", "has 2", "try: eusn-stream model show")
	clitest.Exec(t, t.Context(), "evaluate", "--model", model, "none.parquet").
		Want(t, cli.ExitFailure, "no archive none.parquet", "try: eusn-stream import")
	clitest.Exec(t, t.Context(), "evaluate", "--model", model, dir).Want(t, cli.ExitFailure, dir+" is a folder with 0 archives")
	source := clitest.TinyData(t, "Tiny", 1, 8, 20)
	clitest.Exec(t, t.Context(), "import", filepath.Dir(source), "--name", "Tinny").Want(t, cli.ExitFailure, "Tinny", "Tiny")
	clitest.Exec(t, t.Context(), "import", filepath.Join(dir, "nothing")).Want(t, cli.ExitFailure, "nothing", "try:")
	clitest.Exec(t, t.Context(), "evaluate", "--model", model, model).Want(t, cli.ExitIntegrity, model, "try: another file")
	clitest.Exec(t, t.Context(), "train", two, "--output", model, "--units", "-1").Want(t, cli.ExitUsage, "--units -1", "try: eusn-stream train --help")
}

// Ctrl-C before the work begins must end every loop.
func TestInterrupted(t *testing.T) {
	source, archive, dir := clitest.TinyData(t, "Tiny", 1, 8, 20), clitest.ImportTiny(t, 1), t.TempDir()
	model := filepath.Join(dir, "m.safetensors")
	clitest.Must(t, "train", archive, "--output", model, "--members", "2", "--units", "5")
	before, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, args := range [][]string{
		{"import", source, "--output", filepath.Join(dir, "new.parquet")},
		{"train", archive, "--output", model, "--seed", "9"},
		{"evaluate", archive, "--model", model, "--predictions", filepath.Join(dir, "p.parquet")},
	} {
		clitest.Exec(t, ctx, args...).Want(t, cli.ExitInterrupted, "interrupted:")
	}
	if left := clitest.Leftovers(t, dir, "m.safetensors"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if after, _ := os.ReadFile(model); string(after) != string(before) {
		t.Error("the interrupted training changed the model file")
	}
}
