package offlinecmd_test

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// A model is trained with a front end, describes the front end, and is evaluated through it: classes that differ only
// in loudness, on an offset that drifts.
func TestFrontEnd(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("stream,time,x,label\n")
	for r := range 2400 {
		loud := 1 + r/600%2
		x := float64(r)/20 + float64(loud*(1-2*(r%2)))*float64(1+r*r%5)
		fmt.Fprintf(&b, "m,2026-01-01T00:00:%02d.%03dZ,%g,%s\n", r*10/1000, r*10%1000, x, []string{"calm", "busy"}[r/600%2])
	}
	archive, model := filepath.Join(dir, "drift.parquet"), filepath.Join(dir, "m.safetensors")
	clitest.Must(t, "import", clitest.Write(t, filepath.Join(dir, "drift.csv"), b.String()), "--output", archive)
	train := []string{"train", archive, "--output", model, "--policy", "window", "--length", "100", "--hop", "50", "--members", "4", "--units", "8"}
	clitest.Must(t, append(train, "--front", "center=200ms,envelope=50ms,decimate=10")...)

	out := clitest.Must(t, "model", "show", model).Out
	for _, want := range []string{
		"front end  subtracts the running mean of 20 samples (0.2 s); takes the envelope: the running mean of the magnitude of 5 samples (0.05 s); makes one sample of the mean of 10 samples (0.1 s)\n",
		"ranges     of the samples before the front end\n",
		"window of 100 samples every 50",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("inspect does not say %q:\n%s", want, out)
		}
	}
	var inspected models.Report
	clitest.Must(t, "model", "show", "--json", model).Parse(t, &inspected)
	in := inspected.Training.Inputs[0]
	if want := (&reservoir.Front{Center: 20, Envelope: 5, Decimate: 10, Fill: []float32{float32(in.Mean)}}); !reflect.DeepEqual(inspected.Front, want) {
		t.Errorf("inspect --json: front end %+v, want %+v", inspected.Front, want)
	}
	if in.Max < 100 {
		t.Errorf("ranges up to %v are not those of the samples", in.Max)
	}
	clitest.Must(t, "model", "verify", model)
	clitest.Must(t, "evaluate", "--model", model, archive, "--min-accuracy", "0.95")

	for front, want := range map[string]string{
		"resample=5":           `want center, normalize, smooth, envelope or decimate, each with its length, such as envelope=10ms,decimate=20`,
		"decimate=10ms":        `want a number of samples from 1`,
		"center=20,center=20":  "center twice, want it once",
		"normalize=0":          "want a number of samples from 1, or a time such as 10ms",
		"normalize=100000000h": "want a number of samples from 1, or a time such as 10ms",
	} {
		clitest.Exec(t, t.Context(), append(train, "--front", front)...).Want(t, cli.ExitUsage, want)
	}
	for front, want := range map[string]string{
		"decimate=4":            "policy window with a hop of 50 samples, want a multiple of decimate (4)",
		"center=2s,normalize=9": "center and normalize, want one of them",
		"envelope=1ms":          "envelope of 1ms is 0 samples at 100 Hz, want 1 to",
	} {
		clitest.Exec(t, t.Context(), append(train, "--front", front)...).Want(t, cli.ExitFailure, want)
	}
	clitest.Exec(t, t.Context(), "train", clitest.ImportTiny(t, 1), "--output", model, "--front", "envelope=10ms").
		Want(t, cli.ExitFailure, "want the sampling rate, of which the data say nothing (--sample-rate), or lengths in samples")
}

// Settings select operating regimes: the model describes them, and evaluates as it was trained.
func TestSettings(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("stream,speed,x,label\n")
	for r := range 2400 {
		speed := 1 + 3*(r/7%2)
		worn := r / 600 % 2
		fmt.Fprintf(&b, "m,%d,%g,%s\n", speed, 1000*float64(speed)+float64((1+worn)*(r*r%5)), []string{"new", "worn"}[worn])
	}
	archive, model := filepath.Join(dir, "speeds.parquet"), filepath.Join(dir, "m.safetensors")
	clitest.Must(t, "import", clitest.Write(t, filepath.Join(dir, "speeds.csv"), b.String()), "--output", archive)
	train := []string{"train", archive, "--output", model, "--policy", "window", "--length", "100", "--hop", "50", "--members", "4", "--units", "8"}
	clitest.Must(t, append(train, "--settings", "speed")...)
	if out := clitest.Must(t, "model", "show", model).Out; !strings.Contains(out, "front end  standardizes channels within 2 operating regimes of speed\n") || !strings.Contains(out, "channel speed is left out: it is a setting") {
		t.Errorf("model show prints\n%s", out)
	}
	clitest.Must(t, "evaluate", "--model", model, archive, "--min-accuracy", "0.95")
	clitest.Exec(t, t.Context(), append(train, "--settings", "load")...).Want(t, cli.ExitFailure, `setting "load" is no channel, want one of ["speed" "x"]`)
	clitest.Exec(t, t.Context(), append(train, "--regimes", "2")...).Want(t, cli.ExitFailure, "2 operating regimes and no settings")
}
